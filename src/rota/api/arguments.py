"""What the arguments of the Python API may be, by name: one of a name means the same wherever it is taken."""

from __future__ import annotations

from rota.arguments import (
    CALL,
    FILE,
    FLAG,
    NUMBER,
    TEXT,
    WHOLE,
    Argument,
    all_of,
    either,
    is_file,
    is_whole,
    named,
)
from rota.arguments import instance_of as a
from rota.model.cluster import Cluster
from rota.model.grants import Can
from rota.reports.window import Window
from rota.traces.deadlines import DrawnDeadlines
from rota.traces.describe import TRACE
from rota.traces.elastic import ElasticSizes
from rota.worlds.simulated.answers import UserAnswers
from rota.worlds.simulated.costs import Costs
from rota.worlds.simulated.faults import Fault
from rota.worlds.simulated.semantics import Semantics
from rota.worlds.simulated.slowdowns import Slowdowns

CLUSTER = Argument(
    "cluster",
    either(is_file, a(Cluster)),
    "a text such as '8x8:V100' (nodes x GPUs) or 'auto', a YAML file, or a Cluster",
)

ARGUMENTS = {
    "trace": TRACE,
    "path": FILE,
    "policy": Argument("policy", a(str), "a name such as 'tiresias' or 'fifo:skip=yes'"),
    "cluster": CLUSTER,
    "at_s": NUMBER,
    "format": TEXT.or_none(),
    "knowledge": Argument(
        "source of knowledge", either(a(str), named(str)), "'duration=user', or the same as a mapping"
    ).or_none(),
    "semantics": Argument("set of timing rules", a(str, Semantics), "a name such as 'exact', or Semantics"),
    "costs": Argument("set of costs", a(str, Costs), "such as 'start=20s,restore=30s', or Costs").or_none(),
    "ideal": FLAG,
    "faults": Argument(
        "set of faults", either(a(str), all_of(Fault)), "'mtbf=30d,repair=4h', or a list of Faults"
    ),
    "elastic": Argument("range of sizes", a(str, ElasticSizes), "such as '1:64:pow2'").or_none(),
    "deadlines": Argument("range of deadlines", a(str, DrawnDeadlines), "such as '0.5:1.5'").or_none(),
    "accept": Argument("answer to offers", a(str, UserAnswers), "such as '1.5' or '1.5:10m'").or_none(),
    "failures": FLAG,
    "retries": Argument("number of retries", either(a(str), is_whole), "a number, or 'adaptive'").or_none(),
    "limits": Argument("word about time limits", a(str), "'ignore' or 'enforce'"),
    "throughput": FILE.or_none(),
    "scaling": FILE.or_none(),
    "goodput": FILE.or_none(),
    "regimes": FILE.or_none(),
    "step_times": FILE.or_none(),
    "epochs": FILE.or_none(),
    "pairs": FILE.or_none(),
    "service_history": FILE.or_none(),
    "slowdowns": Argument("set of slowdowns", a(str, Slowdowns), "such as 'spread=0.8'").or_none(),
    "autoscale": Argument("range of nodes", a(str), "such as '2:16,delay=5m'").or_none(),
    "speed": Argument(
        "speed model",
        lambda value: not isinstance(value, type) and hasattr(value, "total") and hasattr(value, "pace"),
        "an instance with the methods total and pace",
    ).or_none(),
    "can": Argument(
        "description of what jobs bear", either(a(str), named(Can)), "'checkpoint+resize,vgg19=suspend'"
    ).or_none(),
    "observation_noise": NUMBER,
    "measure": Argument("window", a(str, Window), "such as '10%:90%' or '1d:5d'").or_none(),
    "baseline": TEXT.or_none(),
    "site_policy": TEXT.or_none(),
    "seed": WHOLE,
    "seeds": WHOLE,
    "confidence": FLAG,
    "observed": FLAG,
    "workers": WHOLE.or_none(),
    "progress": CALL.or_none(),
}
