"""Parameters of ElasticFlow."""

from __future__ import annotations

from dataclasses import dataclass

from rota.errors import InputError


@dataclass(frozen=True)
class ElasticFlowParameters:
    """Parameters of `elasticflow`."""

    slot_s: float = 60.0
    """Length of a slot: plans change the GPUs of a job at the beginning of one."""
    margin_slots: float = 1.0
    """Slots by which a promised job is planned to be done before its deadline."""
    restart_s: float = 10.0
    """Seconds that a change of its GPUs is taken to stop a job."""
    min_run_s: float = 0.0
    """Seconds for which plans leave the GPUs of a job that has just begun as they are; live as `min_run`."""
    refuse: bool = True
    """Refuse a job whose deadline cannot be promised; `no` runs it on what is left over."""
    offer_s: float = 600.0
    """Seconds for which a job that is refused may take a later deadline instead; with 0 none is offered."""
    surplus: bool = True
    """Give GPUs that no promise needs to the jobs that gain most from them; with `no` each job has what its
    promise needs, and a job without a promise the least that it can run on."""

    def __post_init__(self) -> None:
        for name, value, least in (
            ("slot_s", self.slot_s, 1e-9),
            ("margin_slots", self.margin_slots, 0.0),
            ("restart_s", self.restart_s, 0.0),
            ("min_run_s", self.min_run_s, 0.0),
            ("offer_s", self.offer_s, 0.0),
        ):
            if not least <= value < float("inf"):
                what = "above 0" if least else "0 or more"
                raise InputError(f"policy 'elasticflow': {name}={value:g} is not {what}")
