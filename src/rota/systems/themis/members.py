"""The live jobs, app by app: kept from one decision to the next, by what comes and goes."""

from __future__ import annotations

from bisect import bisect_left, insort

from rota.model.jobs import JobTable
from rota.scheduler.snapshot import Cursor, Snapshot
from rota.stages.finish_time import Crowd
from rota.systems.themis.apps import App, Estimates, Readings, app_of, key_of
from rota.systems.themis.parameters import Groups


class Members:
    """Live jobs with GPUs by their apps."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self._jobs: JobTable | None = None
        self._key: dict[int, str] = {}
        self._of: dict[str, list[int]] = {}
        """Live rows of each app, ascending."""
        self._several: set[str] = set()
        """Apps of more than one live job."""
        self._news: dict[str, None] = {}
        """Apps with a job that has come or gone since the crowd last heard of it."""
        self._crowd: object = None
        """The memory of the crowd that has heard of the others."""
        self._cursor = Cursor()

    def follow(self, snapshot: Snapshot) -> None:
        """Bring the apps up to date."""
        table, changed = snapshot.jobs.table, snapshot.joined_or_left(self._cursor)
        if changed is None or self._jobs is not table:
            self._jobs, self._key, self._crowd = table, {}, None
            self._of, self._several = {}, set()
            changed = [*snapshot.waiting.tolist(), *snapshot.running.tolist()]
        grants, gpus_of = snapshot.grants, snapshot.gpus_of
        for row in changed:
            if gpus_of[row]:
                self._note(row, row in grants or snapshot.waits(row))

    def _note(self, row: int, lives: bool) -> None:
        key = self.key(row)
        own = self._of.setdefault(key, [])
        place = bisect_left(own, row)
        is_known = place < len(own) and own[place] == row
        if lives and not is_known:
            insort(own, row)
        elif is_known and not lives:
            del own[place]
        if not own:
            del self._of[key]
        if len(own) > 1:
            self._several.add(key)
        else:
            self._several.discard(key)
        self._news[key] = None

    def key(self, row: int) -> str:
        """The app of `row`."""
        key = self._key.get(row)
        if key is None:
            assert self._jobs is not None, "there is a table once there are jobs"
            key = self._key[row] = key_of(self.groups, self._jobs, row)
        return key

    def of_several(self) -> tuple[list[int], list[int]]:
        """Live jobs that share an app with others, app by app, and how many each app has."""
        apps = [self._of[key] for key in self._several]
        return [row for rows in apps for row in rows], [len(rows) for rows in apps]

    def tell(self, crowd: Crowd[str], now: float) -> None:
        """Report to `crowd` the apps that have come and gone."""
        since, lives, news = crowd.memory["since"], self._of, self._news
        if self._crowd is not crowd.memory:
            self._crowd = crowd.memory
            news = dict.fromkeys([*since, *lives])
        assert self._jobs is not None, "there is a table once there is a crowd"
        submit_s = self._jobs.submit_s
        gone = [key for key in news if key in since and key not in lives]
        fresh = sorted(
            (key for key in news if key in lives and key not in since), key=lambda key: lives[key][0]
        )
        come = {key: min(submit_s.item(row) for row in lives[key]) for key in fresh}
        crowd.change(now, gone, come, float(len(lives)))
        self._news = {}

    def is_as_before(self, crowd: object) -> bool:
        """True if no job has come or gone since the crowd of that memory last heard."""
        return crowd is not None and crowd is self._crowd and not self._news

    def apps(self, seen: Readings, estimates: Estimates) -> list[App]:
        """The apps of the jobs `seen`, which are all of their jobs, by first row."""
        members = dict[str, list[int]]()
        for row in seen.rows.tolist():
            members.setdefault(self.key(row), []).append(row)
        return [app_of(key, own, seen, estimates) for key, own in members.items()]
