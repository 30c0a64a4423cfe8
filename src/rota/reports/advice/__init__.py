"""Which policy a site should adopt: replays of its own trace under several, judged by its goals.

import rota
advice = rota.advise("sacct.txt", cluster="site.yaml", goal="jct=2,tail=1")
advice.write("advice.html")
"""

from __future__ import annotations

from rota.reports.advice.advice import Advice, advise

__all__ = ["Advice", "advise"]
