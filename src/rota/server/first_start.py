"""What a new cluster needs before anybody can use it."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from rota.knowledge.registry import Where, kinds
from rota.model.atomic import write_secret
from rota.server.auth import Unauthorized, identify_token, mint
from rota.server.config import Config
from rota.server.policy.messages import check_policy
from rota.server.roster import StoredRoster
from rota.server.store.rows import REAL, EventRow, PolicyRow, Step
from rota.server.store.store import Store
from rota.server.users import ADMIN, token_files
from rota.wire.views import UserView

log = logging.getLogger(__name__)


def first_up(home: Path, store: Store, roster: StoredRoster, config: Config, now: float) -> None:
    """What a new cluster needs: its policy, an admin with a token."""
    if REAL not in store.policies():
        spec = check_policy(config.policy, kinds(Where.LIVE))
        row = PolicyRow(REAL, str(spec), now, ADMIN)
        event = EventRow(now, ADMIN, "policy", text=f"{spec} at the first start")
        store.commit(Step(policies=[row], events=[event]))
    if roster.user(ADMIN) is None:
        roster.put_user(UserView(name=ADMIN, admin=True, tenant=ADMIN, account=""))
    path = token_files(home)[ADMIN]
    if not _is_good(path, roster):
        if roster.tokens_of("user", ADMIN):  # somebody may have put it elsewhere, or be signed in with it
            log.warning("%s did not hold a token of admin and has a new one; those of before stay good", path)
        token, record = mint("user", ADMIN)
        roster.put_token(record)
        write_secret(path, token)


def _is_good(path: Path, roster: StoredRoster) -> bool:
    """True if the file holds the admin's token; it may be that of another store, or what a crash left."""
    try:
        return identify_token(roster, path.read_text(encoding="ascii").strip(), time.time()).user == ADMIN
    except (Unauthorized, FileNotFoundError, UnicodeDecodeError):
        return False
