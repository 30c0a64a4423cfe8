"""What a tenant is entitled to, in words: `2 nodes of A100, quota 32 (cap)`."""

from __future__ import annotations

from rota.model.units import plural
from rota.model.words import count
from rota.wire.tenants import CellView, TenantView


def entitled_to(tenant: TenantView) -> str:
    """`2 nodes of A100, quota 32 (cap)`."""
    if not tenant.configured:
        return "nothing of its own"
    said = [cell_text(cell) for cell in tenant.cells]
    if tenant.quota is not None:
        said.append(f"quota {count(tenant.quota)}{' (cap)' if tenant.hard else ''}")
    said += [f"{count(gpus)} of {kind} at most" for kind, gpus in sorted(tenant.quota_by_type.items())]
    if tenant.weight != 1.0:
        said.append(f"weight {tenant.weight:g}")
    return ", ".join(said) or "its share by weight"


def cell_text(cell: CellView) -> str:
    """`2 nodes of A100`, `node gpu-3`."""
    if cell.at:
        return f"{cell.level} {cell.at}"
    return plural(cell.count, cell.level) + (f" of {cell.gpu_type}" if cell.gpu_type else "")
