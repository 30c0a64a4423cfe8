"""Parts that only torch programs need: moving device state to host memory and back, and the process group.

Device state moves by storages, not by tensors: each unique storage is copied to host memory and resized to 0.
Tensors, views, tied weights, parameters and the optimizer's references stay the same objects, and have their
contents again after the restore. This covers all tensors on the device that Python can see (parameters,
buffers, gradients, optimizer state, averages, the last batch). Flat gradient buckets of DDP are among them if
the model was wrapped with `gradient_as_bucket_view=True` (`ddp` does so) and gradients are not set to None
before `job.step`. CUDA graphs keep addresses: drop them before a suspension, and capture them again after it.
"""

from __future__ import annotations

import atexit
import gc
import glob
import os
import sys
import threading
import time
from typing import Any

DEFAULT_TIMEOUT_S = 1800.0


def torch_if_there() -> Any:
    """The torch module if the program has imported it, or None."""
    return sys.modules.get("torch")


def settle() -> None:
    """Wait until the device has finished, if the program uses one."""
    torch = torch_if_there()
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


class Suspension:
    """Device state in host memory during a suspension."""

    def __init__(self, device: str = "cuda") -> None:
        """`device` is the type of device to empty; tests use `cpu`."""
        self._device = device
        self._host: list[tuple[Any, Any]] = []
        """(storage on the device, now empty; its bytes as a uint8 tensor in host memory)."""
        self._by_storage: dict[int, Any] = {}
        self.bytes = 0
        self.residual_bytes = 0

    def release(self, tensors: list[Any]) -> None:
        """Move the storages of `tensors` to host memory, large ones first, and free them on the device.

        A storage that cannot be resized (it aliases memory that is not torch's) stays and counts as residual.
        """
        torch = torch_if_there()
        storages: dict[int, Any] = {}
        for tensor in tensors:
            if tensor.device.type == self._device and tensor.layout == torch.strided:
                storage = tensor.untyped_storage()
                storages.setdefault(storage._cdata, storage)
        for storage in sorted(storages.values(), key=lambda one: -int(one.nbytes())):
            if not storage.nbytes():
                continue
            if not storage.resizable():
                self.residual_bytes += storage.nbytes()
                continue
            host = _host_block(torch, storage.nbytes(), pinned=self._device == "cuda")
            host.copy_(_bytes_of(torch, storage), non_blocking=True)
            self._host.append((storage, host))
            self._by_storage[storage._cdata] = host
        settle()
        for storage, _ in self._host:
            self.bytes += storage.nbytes()
            storage.resize_(0)
        self._empty_caches(torch)

    def _empty_caches(self, torch: Any) -> None:
        if self._device != "cuda" or torch is None or not torch.cuda.is_initialized():
            return
        gc.collect()
        clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
        if clear is not None:
            clear()
        torch.cuda.empty_cache()
        self.residual_bytes = int(torch.cuda.memory_reserved())

    def restore(self) -> int:
        """Move all storages back; returns bytes moved."""
        torch = torch_if_there()
        for storage, host in self._host:
            storage.resize_(host.numel())
            _bytes_of(torch, storage).copy_(host, non_blocking=True)
        settle()
        self._host.clear()
        self._by_storage.clear()
        self._empty_host_cache(torch)
        return self.bytes

    def _empty_host_cache(self, torch: Any) -> None:
        """Free PyTorch's cache of pinned memory, which would otherwise hold the state a second time."""
        if self._device != "cuda" or torch is None or not torch.cuda.is_initialized():
            return
        if (empty := getattr(torch._C, "_host_emptyCache", None)) is not None:
            empty()

    def on_host(self, tree: Any) -> Any:
        """A tree of state taken before the release, with the tensors' bytes where they are now."""
        torch = torch_if_there()
        if torch is None:
            return tree
        if isinstance(tree, torch.Tensor):
            if tree.layout != torch.strided:
                return tree
            host = self._by_storage.get(tree.untyped_storage()._cdata)
            if host is None:
                return tree
            there = torch.empty(0, dtype=tree.dtype)
            return there.set_(host.untyped_storage(), tree.storage_offset(), tree.size(), tree.stride())
        if isinstance(tree, dict):
            copy = tree.copy()  # keeps the class and a model state's metadata
            copy.update((key, self.on_host(value)) for key, value in tree.items())
            return copy
        if type(tree) in (list, tuple):
            return type(tree)(self.on_host(one) for one in tree)
        return tree


def device_tensors(device: str = "cuda") -> list[Any]:
    """All tensors on such devices that Python knows."""
    torch = torch_if_there()
    if torch is None or (
        device == "cuda" and not (torch.cuda.is_available() and torch.cuda.is_initialized())
    ):
        return []
    kind = torch.Tensor
    tensors = [one for one in gc.get_objects() if issubclass(type(one), kind) and one.device.type == device]
    return tensors + [one.grad for one in tensors if one.is_leaf and one.grad is not None]


def _host_block(torch: Any, size: int, pinned: bool) -> Any:
    """Host memory for `size` bytes; pinned if there is enough."""
    if pinned:
        try:
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)
        except RuntimeError:
            return torch.empty(size, dtype=torch.uint8)
    return torch.empty(size, dtype=torch.uint8)


def _bytes_of(torch: Any, storage: Any) -> Any:
    """A storage as a flat tensor of bytes."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(
        storage, 0, (storage.nbytes(),), (1,)
    )


class ProcessGroup:
    """The default process group of torch.distributed."""

    def __init__(self, distributed: Any) -> None:
        self._distributed = distributed
        self.rank = int(distributed.get_rank())
        self.world_size = int(distributed.get_world_size())
        self.runs_behind = "nccl" in str(distributed.get_backend())
        """True if the device may be steps behind the program, which only queues its collectives."""
        self._events: list[Any] = []

    @property
    def store(self) -> Any:
        """The store through which the group was formed."""
        return self._distributed.distributed_c10d._get_default_store()

    @property
    def timeout_s(self) -> float:
        """Time-out of its collectives in seconds; torch's default if it is unknown."""
        torch = torch_if_there()
        kind = "cuda" if self.runs_behind else "cpu"
        try:
            backend = self._distributed.group.WORLD._get_backend(torch.device(kind))
            return float(backend.options._timeout.total_seconds())
        except (AttributeError, RuntimeError):
            return DEFAULT_TIMEOUT_S

    def fence(self) -> None:
        """Wait so that the program is at most one step ahead of its device."""
        torch = torch_if_there()
        if not self._events:
            self._events = [torch.cuda.Event(), torch.cuda.Event()]
            self._events[1].record()
        now, before = self._events
        now.record()
        before.synchronize()
        self._events = [before, now]

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, by rank; all ranks must call it."""
        values: list[Any] = [None] * self.world_size
        self._distributed.all_gather_object(values, value)
        return values

    def broadcast(self, value: Any) -> Any:
        """Rank 0's value; all ranks must call it."""
        values = [value]
        self._distributed.broadcast_object_list(values, src=0)
        return values[0]


def group_if_there() -> ProcessGroup | None:
    """The default process group, if the program has one of more than one rank."""
    torch = torch_if_there()
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return None
    group = ProcessGroup(torch.distributed)
    return group if group.world_size > 1 else None


def ddp(model: Any, timeout_s: float = DEFAULT_TIMEOUT_S, **options: Any) -> Any:
    """The model, ready for the number of ranks in the environment: on its device, wrapped by DDP if > 1.

    Makes the process group from the environment (NCCL with CUDA, else gloo), and destroys it when the program
    ends. With one rank there is no group, and the model is returned unchanged. `options` are passed to
    DistributedDataParallel.
    """
    import datetime

    import torch

    cuda = torch.cuda.is_available()
    device = torch.device("cuda", _device_index(torch.cuda.device_count())) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
        model = model.to(device)
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return model
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group(
            "nccl" if cuda else "gloo", timeout=datetime.timedelta(seconds=timeout_s)
        )
        atexit.register(_end_group)
    options.setdefault("gradient_as_bucket_view", True)
    return torch.nn.parallel.DistributedDataParallel(model, device_ids=[device] if cuda else None, **options)


def _end_group() -> None:
    """Destroy the process group before the interpreter shuts down: torch's threads otherwise abort the
    program.

    Not after an exception: the other ranks may be waiting in a collective, and NCCL would wait for them.
    """
    distributed = sys.modules["torch"].distributed
    if distributed.is_initialized() and getattr(sys, "last_type", None) is None:
        distributed.destroy_process_group()
        _let_threads_rest()


def _let_threads_rest(within_s: float = 2.0, looks: int = 3) -> None:
    """Wait until no other thread works, in several checks in a row.

    DDP's buckets keep gloo's threads alive beyond their group. A thread that still drops its last collective
    asks for the interpreter's lock, which is fatal in C++ while the interpreter shuts down (before 3.14).
    """
    until, resting = time.monotonic() + within_s, 0
    while resting < looks and time.monotonic() < until:
        time.sleep(0.002)  # without the lock, so that waiting threads get it
        resting = resting + 1 if _others_sleep() else 0


def _others_sleep() -> bool:
    """Whether all other threads of this process are asleep, by the kernel; True if that is unknown."""
    own = str(threading.get_native_id())
    for path in glob.glob("/proc/self/task/*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except OSError:
            continue  # it has ended
        if state != "S" and path.split("/")[4] != own:
            return False
    return True


def _device_index(count: int) -> int:
    """Index of this rank's device: with Rota a rank sees only its own, with torchrun it sees all."""
    return int(os.environ.get("LOCAL_RANK", "0")) % max(count, 1)
