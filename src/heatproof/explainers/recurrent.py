"""Recurrent networks step by step, with the arguments of torch's own functions (`torch.lstm` and its kin)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

State = tuple[Tensor, ...]
Step = Callable[[Tensor, State, Sequence[Tensor]], State]
"""Inputs (B, F), the state and the weights of a layer give the next state, whose first part is the output."""


def split_weights(weights: Sequence[Tensor], biases: bool) -> tuple[Tensor, Tensor, Any, Any, Any]:
    """Weights and biases of inputs and state, and the projection of the output, if there is one."""
    more = list(weights[2:])
    first, second = (more.pop(0), more.pop(0)) if biases else (None, None)
    return weights[0], weights[1], first, second, more[0] if more else None


def lstm_step(biases: bool, x: Tensor, state: State, weights: Sequence[Tensor]) -> State:
    of_input, of_state, first, second, projection = split_weights(weights, biases)
    gates = functional.linear(x, of_input, first) + functional.linear(state[0], of_state, second)
    enter, forget, content, leave = gates.chunk(4, -1)
    cell = forget.sigmoid() * state[1] + enter.sigmoid() * content.tanh()
    hidden = leave.sigmoid() * cell.tanh()
    return hidden if projection is None else functional.linear(hidden, projection), cell


def gru_step(biases: bool, x: Tensor, state: State, weights: Sequence[Tensor]) -> State:
    of_input, of_state, first, second, _ = split_weights(weights, biases)
    reset, update, new = functional.linear(x, of_input, first).chunk(3, -1)
    reset_state, update_state, new_state = functional.linear(state[0], of_state, second).chunk(3, -1)
    content = (new + (reset + reset_state).sigmoid() * new_state).tanh()
    return (content + (update + update_state).sigmoid() * (state[0] - content),)


def rnn_step(activation: Callable[[Tensor], Tensor], biases: bool, x: Tensor, state: State, weights: Any) -> State:
    of_input, of_state, first, second, _ = split_weights(weights, biases)
    return (activation(functional.linear(x, of_input, first) + functional.linear(state[0], of_state, second)),)


def one_way(step: Step, steps: Sequence[Tensor], state: State, weights: Any) -> tuple[list[Tensor], State]:
    """The outputs of all steps, and the state of each case after its last.

    Cases are sorted by length, the longest first, so a step has the first so many of them.
    """
    outputs, finished = [], []
    for x in steps:
        if len(x) < len(state[0]):  # some have ended
            finished.append(tuple(part[len(x) :] for part in state))
            state = tuple(part[: len(x)] for part in state)
        state = step(x, state, weights)
        outputs.append(state[0])
    return outputs, joined([state, *reversed(finished)])


def other_way(step: Step, steps: Sequence[Tensor], state: State, weights: Any) -> tuple[list[Tensor], State]:
    """The same from the last step to the first: more cases join in on the way."""
    current = tuple(part[: len(steps[-1])] for part in state)
    outputs = []
    for x in reversed(steps):
        if len(x) > len(current[0]):
            current = joined([current, tuple(part[len(current[0]) : len(x)] for part in state)])
        current = step(x, current, weights)
        outputs.append(current[0])
    return outputs[::-1], current


def joined(states: Sequence[State]) -> State:
    return states[0] if len(states) == 1 else tuple(torch.cat(parts) for parts in zip(*states, strict=True))


def layers(
    step: Callable[..., State], steps: list[Tensor], state: State, weights: Sequence[Tensor], *options: Any
) -> tuple[list[Tensor], list[State]]:
    """All layers in turn: the outputs of the last, and the last state of each layer and direction."""
    biases, count, _dropout, _training, both = options
    directions = [one_way, other_way] if both else [one_way]
    each = len(weights) // (count * len(directions))
    ends: list[State] = []
    for _ in range(count):
        found = []
        for direction in directions:
            place = len(ends)
            begin = tuple(part[place] for part in state)
            outputs, end = direction(partial(step, biases), steps, begin, weights[each * place : each * (place + 1)])
            found.append(outputs)
            ends.append(end)
        steps = [parts[0] if len(parts) == 1 else torch.cat(parts, 1) for parts in zip(*found, strict=True)]
    return steps, ends


def run(step: Callable[..., State], state_of: Callable[[Any], State], *arguments: Any) -> tuple[Tensor, ...]:
    """Outputs and last states of a recurrent network over a tensor, or over a packed sequence."""
    packed = isinstance(arguments[1], Tensor) and not arguments[1].is_floating_point()
    if packed:
        data, sizes, state, weights, *options = arguments
        steps, ends = layers(step, list(data.split(sizes.tolist())), state_of(state), weights, *options)
        outputs = torch.cat(steps)
    else:
        data, state, weights, *options, batch_first = arguments
        axis = 1 if batch_first else 0
        steps, ends = layers(step, list(data.unbind(axis)), state_of(state), weights, *options)
        outputs = torch.stack(steps, axis)
    return outputs, *[torch.stack(parts) for parts in zip(*ends, strict=True)]


def lstm(*arguments: Any) -> tuple[Tensor, ...]:
    return run(lstm_step, tuple, *arguments)


def gru(*arguments: Any) -> tuple[Tensor, ...]:
    return run(gru_step, lambda state: (state,), *arguments)


def rnn_tanh(*arguments: Any) -> tuple[Tensor, ...]:
    return run(partial(rnn_step, torch.tanh), lambda state: (state,), *arguments)


def rnn_relu(*arguments: Any) -> tuple[Tensor, ...]:
    return run(partial(rnn_step, torch.relu), lambda state: (state,), *arguments)


def cell_weights(weights: Sequence[Any]) -> tuple[bool, list[Tensor]]:
    given = [weight for weight in weights if weight is not None]
    return len(given) == 4, given


def lstm_cell(x: Tensor, state: Sequence[Tensor], *weights: Any) -> State:
    biases, given = cell_weights(weights)
    return lstm_step(biases, x, tuple(state), given)


def gru_cell(x: Tensor, state: Tensor, *weights: Any) -> Tensor:
    biases, given = cell_weights(weights)
    return gru_step(biases, x, (state,), given)[0]


def rnn_tanh_cell(x: Tensor, state: Tensor, *weights: Any) -> Tensor:
    biases, given = cell_weights(weights)
    return rnn_step(torch.tanh, biases, x, (state,), given)[0]


def rnn_relu_cell(x: Tensor, state: Tensor, *weights: Any) -> Tensor:
    biases, given = cell_weights(weights)
    return rnn_step(torch.relu, biases, x, (state,), given)[0]
