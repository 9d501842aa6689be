"""Memory: blocks keep to their budget, samples cost none, and where it runs out the work goes on in halves."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
import torch
from torch import Tensor, nn

from heatproof.cases import Batch
from heatproof.errors import is_out_of_memory
from heatproof.explainers import explainers
from heatproof.explainers.base import QUANTITIES, Quantity, quantity_of
from heatproof.explainers.memory import Footprint, halve_where_memory_runs_out
from heatproof.explainers.same_network import is_checked
from heatproof.explainers.spec import make_explainer
from heatproof.progress import listening
from heatproof.seeds import CaseRandom
from reference.explainers import Net

SAMPLED = [name for name, cls in explainers.items() if "memory" in cls.__dataclass_fields__]
SHARING = [name for name, cls in explainers.items() if cls().shares_passes]
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


class Narrow(nn.Module):
    """A model that has room for so many rows only, and says so as torch's allocator does."""

    def __init__(self, model: nn.Module, room: int) -> None:
        super().__init__()
        self.features, self.head = model.features, model.head
        self.room = room
        self.seen: list[int] = []

    def forward(self, inputs: Tensor) -> Tensor:
        maps = self.features(inputs)
        if not is_checked():
            self.seen.append(len(inputs))
        if len(inputs) > self.room:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.")
        logits: Tensor = self.head(maps)
        return logits


@pytest.mark.parametrize(
    "name", [n for n, cls in explainers.items() if cls.family != "attention" and n != "randomised"]
)
def test_work_goes_on_where_memory_runs_out(picture_net: Net, name: str) -> None:
    """Reference: the relevance with room enough; a batch of seven in a model with room for three rows."""
    small = {
        "smoothgrad": {"samples": 9}, "vargrad": {"samples": 9}, "lime": {"samples": 9},
        "kernel_shap": {"samples": 9, "segmenter": "blocks"},
    }.get(name, {})  # fmt: skip
    explainer = make_explainer(name, **small)
    expected = explainer(picture_net.model, picture_net.batch, CaseRandom(0, name))
    narrow = Narrow(picture_net.model, 3)
    torch.testing.assert_close(explainer(narrow, picture_net.batch, CaseRandom(0, name)), expected, **CLOSE)
    if narrow.seen:
        assert max(narrow.seen) > 3  # it was tried


@pytest.mark.parametrize("name", SHARING)
def test_all_quantities_where_memory_runs_out(picture_net: Net, name: str) -> None:
    """Reference: each quantity on its own with room enough; progress goes forwards although work is done again."""
    small = {
        "smoothgrad": {"samples": 9}, "vargrad": {"samples": 9}, "lime": {"samples": 9},
        "kernel_shap": {"samples": 9, "segmenter": "blocks"},
    }.get(name, {})  # fmt: skip
    narrow, rng, told = Narrow(picture_net.model, 3), CaseRandom(0, name), list[float]()
    with listening(told.append):
        found = make_explainer(name, **small).each(narrow, picture_net.batch, rng, QUANTITIES)
    assert max(narrow.seen) > 3  # it was tried
    for relevance, quantity in zip(found, QUANTITIES, strict=True):
        expected = make_explainer(name, quantity=quantity, **small)(picture_net.model, picture_net.batch, rng)
        torch.testing.assert_close(relevance, expected, **CLOSE)
    assert told == sorted(set(told))
    assert told[-1] == 1


@pytest.mark.parametrize("name", SHARING)
def test_nothing_is_counted_twice_where_memory_runs_out_for_the_last_quantity(
    picture_net: Net, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model has room, its probabilities have not. Reference: the logit's relevance with room for everything."""
    blocks = {"segmenter": "blocks"} if name == "kernel_shap" else {}
    explainer, rng = make_explainer(name, rows=6, **blocks), CaseRandom(0, name)
    expected = explainer.each(picture_net.model, picture_net.batch[:4], rng, ("logit", "probability"))
    in_vain: list[int] = []

    def short(outputs: Tensor, target: Tensor, quantity: Quantity) -> Tensor:
        if quantity == "probability" and len(outputs) > 4:
            in_vain.append(len(outputs))
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.")
        return quantity_of(outputs, target, quantity)

    monkeypatch.setattr("heatproof.explainers.sharing.quantity_of", short)
    found = explainer.each(picture_net.model, picture_net.batch[:4], rng, ("logit", "probability"))
    assert in_vain
    torch.testing.assert_close(found, expected, **CLOSE)


def test_progress_of_halves(picture_net: Net) -> None:
    """Reference: by hand. Seven cases with room for three: the first three, then two halves of the other four."""
    told: list[float] = []
    with listening(told.append):
        make_explainer("gradient")(Narrow(picture_net.model, 3), picture_net.batch, CaseRandom(0, "gradient"))
    assert told == [1 / 2, 3 / 4, 1]


def test_one_row_too_many_is_an_error(picture_net: Net) -> None:
    """Nothing is left to halve; the error is torch's own."""
    for name in ("gradient", "rise"):
        with pytest.raises(RuntimeError, match="can't allocate memory"):
            make_explainer(name)(Narrow(picture_net.model, 0), picture_net.batch, CaseRandom(0, name))


def test_other_errors_are_not_taken_for_lack_of_memory() -> None:
    def fail(_rows: Tensor) -> None:
        raise RuntimeError("shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        halve_where_memory_runs_out(fail, (torch.arange(4),))
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(ValueError("can't allocate memory"))


def test_later_blocks_remember_what_fitted(picture_net: Net) -> None:
    """After the first failure no block is larger than what went through."""
    narrow = Narrow(picture_net.model, 5)
    make_explainer("rise", masks=100, rows=50)(narrow, picture_net.batch, CaseRandom(0, "rise"))
    in_vain = [place for place, rows in enumerate(narrow.seen) if rows > 5]
    assert narrow.seen[in_vain[0]] == 50
    assert in_vain[-1] < 30  # the halves of the first block
    assert len(narrow.seen) > 700 / 5


@pytest.mark.parametrize("name", ["rise", "integrated_gradients", "smoothgrad", "lime"])
def test_a_shortage_leaves_no_trace_in_later_explanations(picture_net: Net, name: str) -> None:
    """Reference: a model that never lacked memory, bit for bit, and the sizes of its blocks."""
    explainer, rng = make_explainer(name), CaseRandom(0, name)
    fresh, once_narrow = Narrow(picture_net.model, 10**6), Narrow(picture_net.model, 5)
    expected = explainer(fresh, picture_net.batch, rng)
    explainer(once_narrow, picture_net.batch, rng)
    assert once_narrow.seen != fresh.seen  # there was a shortage
    once_narrow.room = 10**6
    once_narrow.seen.clear()
    found = explainer(once_narrow, picture_net.batch, rng)
    assert once_narrow.seen == fresh.seen[-len(once_narrow.seen) :]  # what a row costs is still known
    assert sum(fresh.seen) == sum(once_narrow.seen) + 1
    assert torch.equal(found, expected)


@pytest.mark.parametrize("name", ["rise", "integrated_gradients"])
def test_blocks_keep_to_the_budget(name: str) -> None:
    """Rows times bytes per row is near the budget, in every block."""
    model = nn.Sequential(nn.Conv2d(1, 50, 3, padding=1), nn.ReLU(), nn.Conv2d(50, 4, 64), nn.Flatten())
    batch = Batch(torch.randn(2, 1, 64, 64), torch.tensor([0, 1]), ("a", "b"))
    seen: list[int] = []
    model.register_forward_hook(lambda module, args, output: seen.append(len(output)))
    options = {"masks": 100} if name == "rise" else {"steps": 100}
    make_explainer(name, memory=50, **options)(model, batch, CaseRandom(0, name))
    # Convolution and ReLU make 2 x 820 kB a row: both are kept for backward, one at a time otherwise.
    row = 50 * 64 * 64 * 4
    expected = 50e6 / (4 * row if name == "rise" else 6 * row)
    assert 0.7 * expected < max(seen) < 1.4 * expected
    assert max(seen) - min(seen) <= 1
    seen.clear()
    make_explainer(name, memory=5, **options)(model, batch, CaseRandom(0, name))
    assert max(seen) < 5


def test_footprint_counts_functions_and_modules_alike() -> None:
    """Reference: the bytes of the tensors by hand; parameters do not count, they are there anyway."""
    inputs, layer = torch.randn(3, 10, requires_grad=True), nn.Linear(10, 1000)
    with Footprint() as footprint:
        torch.tanh(layer(inputs))
    assert footprint.kept == 2 * 3 * 1000 * 4
    assert footprint.largest == 2 * 3 * 1000 * 4
    with Footprint() as footprint, torch.no_grad():
        torch.tanh(layer(inputs))
    assert not footprint.kept


def test_footprint_does_not_depend_on_which_addresses_are_free() -> None:
    """Reference: ten results by hand, of which each is gone when the next but one is made."""
    values = torch.randn(1000, requires_grad=True)
    with Footprint() as footprint:
        for _ in range(10):
            values = values * 2
    assert footprint.kept == 10 * 1000 * 4


@pytest.mark.parametrize("name", ["rise", "integrated_gradients"])
def test_a_cpu_takes_as_many_rows_at_once_as_are_quick(name: str) -> None:
    """A network that is next to nothing, with room for all rows: 500 at once, or as many as are asked for.

    Reference: the relevance of one row at a time.
    """
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    batch = Batch(torch.randn(1, 1, 6).double(), torch.tensor([0]), ("a",))
    seen: list[int] = []
    model.register_forward_hook(lambda module, args, output: seen.append(len(output)))
    options, rng = {"masks": 2000} if name == "rise" else {"steps": 1999}, CaseRandom(0, name)
    found = make_explainer(name, **options)(model, batch, rng)
    assert seen == [500] * 4
    seen.clear()
    make_explainer(name, rows=250, **options)(model, batch, rng)
    assert seen == [250] * 8
    torch.testing.assert_close(make_explainer(name, rows=1, **options)(model, batch, rng), found, **CLOSE)


SAMPLES = {
    "rise": "masks", "lime": "samples", "kernel_shap": "samples", "integrated_gradients": "steps",
    "smoothgrad": "samples", "vargrad": "samples",
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_peak_memory_does_not_grow_with_the_samples(name: str) -> None:
    """A process's peak after 100 and after 3,000 samples of one picture; all noisy copies at once would be 570 MB."""
    script = f"""
        import resource, torch
        from torch import nn
        from heatproof.cases import Batch
        from heatproof.explainers.spec import make_explainer
        from heatproof.seeds import CaseRandom
        torch.set_num_threads(1)
        model = nn.Sequential(nn.Conv2d(3, 4, 8, stride=8), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 4))
        batch = Batch(torch.rand(1, 3, 128, 128), torch.tensor([0]), ("a",))
        segmenter = {{"segmenter": "blocks"}} if {name!r} in ("lime", "kernel_shap") else {{}}
        for samples in (100, 3000):
            explainer = make_explainer({name!r}, {SAMPLES[name]}=samples, rows=32, **segmenter)
            explainer(model, batch, CaseRandom(0, "a"))
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    """
    few, many = map(int, subprocess.check_output([sys.executable, "-c", textwrap.dedent(script)], text=True).split())
    assert many - few < 30e6


def test_work_goes_on_where_the_system_has_no_more_memory() -> None:
    """A process that may not have much more than it has: torch's allocator really fails, and the work goes on."""
    script = """
        import resource, torch
        from torch import nn
        from heatproof.cases import Batch
        from heatproof.explainers.spec import make_explainer
        from heatproof.seeds import CaseRandom
        torch.set_num_threads(1)
        layers = nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4)
        model = nn.Sequential(*layers)
        batch = Batch(torch.rand(8, 3, 512, 512), torch.arange(8) % 4, tuple("abcdefgh"))
        gradient, rng = make_explainer("gradient"), CaseRandom(0, "a")
        expected = torch.cat([gradient(model, batch[i : i + 1], rng) for i in range(8)])
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 300_000_000, -1))
        try:
            model(batch.inputs)
            raise SystemExit("there is room for all; this proves nothing")
        except RuntimeError as problem:
            assert "can't allocate memory" in str(problem), problem
        torch.testing.assert_close(gradient(model, batch, rng), expected)
        found = make_explainer("rise", masks=40, memory=100_000)(model, batch[:1], rng)
        print("done", bool(found.isfinite().all()))
    """
    if not sys.platform.startswith("linux"):
        pytest.skip("limits the address space as Linux does")
    assert subprocess.check_output([sys.executable, "-c", textwrap.dedent(script)], text=True) == "done True\n"
