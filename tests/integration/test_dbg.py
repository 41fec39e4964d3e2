import asyncio, pytest, time
from fireledger.domain.commands import AmendTrigger
from fireledger.domain.instants import SECOND, MINUTE
from tests.integration.scheduler.harness import *
async def wait(clock, s):
    end=clock.monotonic()+s
    await until(lambda: clock.monotonic()>end, timeout_s=s+5, what="x")
@pytest.mark.asyncio
@pytest.mark.parametrize("both",[False,True])
async def test_lat(broker,both):
    """x."""
    async with opened_desk(broker) as desk, scheduling(broker.login("scheduler")) as r:
      async with (scheduling(broker.login("scheduler"),"two") if both else opened_desk(broker)) as two:
        names=[f"t{i}" for i in range(25)]
        for n in names: await desk.create(n,*(f"a{i}" for i in range(20)))
        await desk.create("acme","a")
        async def phase(label, secs):
            mark=r.clock.now().earliest
            await wait(r.clock, secs)
            lat=sorted(x.arrived_at-f.release for n in names for x,f in desk.released(n) if f.release>mark)
            print(both,label,"n",len(lat),"p50",percentile(lat,.5),"p99",percentile(lat,.99),"max",lat[-1]/1000)
        await phase("quiet",12)
        k=0
        async def amend():
            nonlocal k
            while True:
                await desk.do("acme", AmendTrigger(trigger="a", definition=definition(window=SECOND*(60+k%2)))); k+=1
        t=asyncio.create_task(amend())
        await phase("amending",12)
        t.cancel()
        print("amended",k,"conflicts",desk.conflicts, r.scheduler.conflict_count, r.scheduler.committed_count, two.scheduler.conflict_count if both else 0)
        for n in names+["acme"]: desk.check_exactly_once(n)
