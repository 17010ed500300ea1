"""Controlled rounding as a minimum-cost flow.

Nodes: the ground (the root of every basis), one node for each group of children with a total, one for each group of
each partition in each child, and one for each cell. A unit of flow is a cell rounded up: it goes from the cell's node
over the arc (cell, child), which has room for one, into the finest group that holds the cell, on through the coarser
ones to the child's total, and to the ground. A cell's node supplies its leftover.

The arc above a group carries the convex cost ``weight * |flow - target|`` and, in front of all else, the amounts by
which its bounds are missed: parallel arcs, one for each linear piece. Bounds are therefore never broken in secret
and any rounding with the right parent sums is a first flow: the search starts from the largest remainders.

A group with a single open cell in a child has no node of its own: its cost is added to that of the cell's arc.

Costs of several passes, of missed bounds and of the tie-breaker become one integer. A cycle without repeated nodes has
at most so many arcs of each kind, so a price that exceeds what all later kinds can add up to along a cycle puts the
kinds in exact order (``docs/proofs/rounding.md``, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from confide.arrays import Booleans, Integers
from confide.estimation.rounding import HALF, RoundingRemainder

Index = npt.NDArray[np.int32]
UNLIMITED = 2**30
_ROOM = 2**61
"""Sums of three path costs must stay within int64."""


@dataclass(frozen=True, slots=True, eq=False)
class Network:
    """Arcs with a first flow and a spanning tree. Node 0 is the ground; ``basis[v]`` is the tree arc above node v.

    The first arcs are those of the open cells, in the order of ``np.nonzero(remainder.open)``.
    """

    nodes: int
    tail: Index
    head: Index
    capacity: Index
    cost: Integers
    flow: Index
    basis: Index


@dataclass(frozen=True, slots=True)
class Prices:
    """What a unit of distance costs in each pass, and a unit of a missed bound."""

    passes: tuple[int, ...]
    bound: int

    @classmethod
    def of(cls, remainder: RoundingRemainder) -> Prices | None:
        """The prices, or None if one int64 cannot hold the order of all kinds."""
        problem = remainder.problem
        groups = 0 if remainder.totals_remaining is None else len(remainder.totals_remaining)
        rows = remainder.open.shape[0]
        # Networks that have nothing to do with each other: a cycle stays in one of them.
        parts = remainder.levels[0].group if problem.apart and remainder.levels else np.zeros(rows, np.int64)
        hubs = groups + 1 + (_largest_part(parts) if remainder.ups is not None else 0)
        most = []  # arcs of each level on a path or cycle without repeated nodes
        coarser = groups + 1
        for level in remainder.levels:
            finer = _largest_part(parts[level.starts]) * level.target.shape[1]
            most.append(2 * min(coarser, finer, hubs) + 2)
            coarser = finer
        # A cycle without repeated nodes passes each hub once, and comes and goes by one cell arc each.
        cells = 2 * hubs + 2
        reach = cells * HALF
        passes = [0] * problem.passes
        # From the last kind to the first: a price is one more than all later kinds can add up to.
        for number in reversed(range(problem.passes)):
            passes[number] = reach + 1
            weight = problem.cell_weight * cells if problem.cell_pass == number else 0
            for level, arcs in zip(remainder.levels, most, strict=True):
                weight += level.partition.weight * arcs if level.partition.in_pass == number else 0
            reach += passes[number] * weight
        bound = reach + 1
        limited = sum(arcs for level, arcs in zip(remainder.levels, most, strict=True) if level.partition.bounded)
        reach += bound * (2 * limited + 2)
        return cls(tuple(passes), bound) if reach < _ROOM else None


def _largest_part(part: Integers) -> int:
    """How many there are of the part that most are of."""
    return int(np.bincount(part).max(initial=0))


def build(remainder: RoundingRemainder, prices: Prices) -> Network:
    """The network of what remains, starting from the largest remainders."""
    problem, free = remainder.problem, remainder.open
    children = free.shape[1]
    start, spare = _largest_remainders(remainder)
    groups = _groups(remainder, start, prices)
    # Groups with more than one open cell have a node; the flow of others passes through without a choice.
    shared = groups.count > 1
    ids = np.cumsum(shared, dtype=np.int64)  # the ground is 0
    nodes = int(np.count_nonzero(shared)) + 1
    slopes = groups.slopes()
    first = _first_slope(groups.breaks, slopes)

    # Where the flow of a group goes, and what it costs on the way there if the group has no node of its own.
    family = ids[: groups.families]
    node = np.zeros((1, children), np.int64)
    if problem.child_group is not None and groups.families:
        node = np.where(problem.child_group >= 0, family[problem.child_group], 0)[None, :]
    extra = np.zeros((1, children), np.int64)
    above = [np.zeros(groups.families, np.int64)]
    begin = groups.families
    for level in remainder.levels:
        here = slice(begin, begin + level.target.size)
        begin = here.stop
        over, shape = node[level.above], level.target.shape
        above.append(over.ravel())
        own = shared[here].reshape(shape)
        node = np.where(own, ids[here].reshape(shape), over)
        extra = extra[level.above] + np.where(own, 0, first[here].reshape(shape))

    # One arc for each open cell: its tie-breaker, its own distance, and that of groups without a node.
    rows, columns = np.nonzero(free)
    finest = remainder.levels[-1].group[rows] if remainder.levels else np.zeros(len(rows), np.int64)
    fractional = remainder.fractional[rows, columns]
    cell_price = prices.passes[problem.cell_pass] * problem.cell_weight
    cost = HALF - fractional + np.where(fractional > HALF, -cell_price, cell_price) + extra[finest, columns]
    tail = np.zeros(len(rows), np.int64)
    # Below a parent each cell has a node that supplies its ups; at the root the ground supplies what is wanted.
    if remainder.ups is not None:
        busy = free.any(axis=1)
        tail = (np.cumsum(busy) + (nodes - 1))[rows]
        nodes += int(np.count_nonzero(busy))
    cell_arcs = (tail, node[finest, columns], np.ones_like(tail), cost, start[rows, columns])
    group_arcs, basic = _pieces(
        ids[shared],
        np.concatenate(above)[shared],
        groups.flow[shared],
        groups.breaks[:, shared],
        slopes[:, shared],
    )
    tails, heads, rooms, costs, flows = (np.concatenate(parts) for parts in zip(cell_arcs, group_arcs, strict=True))
    # The first tree: above each cell the next arc that would be rounded up, above each group the piece with room. Both
    # can take one more unit towards the ground, so the tree is strongly feasible.
    in_tree = np.concatenate([np.flatnonzero(spare[rows, columns]), len(rows) + basic])
    basis = np.full(nodes, -1, np.int32)
    basis[tails[in_tree]] = in_tree
    narrow = (array.astype(np.int32) for array in (tails, heads, rooms, flows))
    tails32, heads32, rooms32, flows32 = narrow
    return Network(nodes, tails32, heads32, rooms32, costs, flows32, basis)


def _largest_remainders(remainder: RoundingRemainder) -> tuple[Booleans, Booleans]:
    """The open cells with the largest fractional parts, as many in each row as are rounded up; and the next one.

    At the root, where no row has a sum, the cells above one half, and no next one.
    """
    if remainder.ups is None:
        return remainder.open & (remainder.fractional > HALF), np.zeros_like(remainder.open)
    keys = np.where(remainder.open, -remainder.fractional, 1)
    rank = np.empty_like(keys)
    rank[np.arange(len(keys))[:, None], np.argsort(keys, axis=1, kind="stable")] = np.arange(keys.shape[1])
    ups = remainder.ups[:, None]
    return remainder.open & (rank < ups), remainder.open & (rank == ups)


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """All groups one after the other: first those of children (``families``), then the levels, coarse to fine.

    ``count`` is the number of open cells, ``flow`` of those rounded up at the start. The cost of a flow z is
    ``price * |z - target|``, and ``bound`` for each unit below ``lower`` or above ``upper``.
    """

    families: int
    count: Integers
    flow: Integers
    price: Integers
    target: Integers
    lower: Integers
    upper: Integers
    bound: int
    breaks: Integers

    def slopes(self) -> Integers:
        """The cost of one more unit from 0 and from each break point on: a row for each."""
        low = np.concatenate([np.zeros((1, len(self.count)), np.int64), self.breaks])
        slope = np.where(low < self.target, -self.price, self.price)
        slope -= np.where(low < self.lower, self.bound, 0)
        slope += np.where(low >= self.upper, self.bound, 0)
        return slope


def _groups(remainder: RoundingRemainder, start: Booleans, prices: Prices) -> _Groups:
    problem = remainder.problem
    children = start.shape[1]
    families = 0 if remainder.totals_remaining is None else len(remainder.totals_remaining)
    length = families + sum(level.target.size for level in remainder.levels)
    count, flow, price, target, lower = np.zeros((5, length), np.int64)
    upper = np.full(length, UNLIMITED)
    stacked = np.concatenate([remainder.open, start, remainder.settled], axis=1).astype(np.int64)
    if remainder.totals_remaining is not None and problem.child_group is not None:
        sums = np.zeros((families + 1, 3), np.int64)
        np.add.at(sums, problem.child_group, stacked.sum(axis=0).reshape(3, children).T)
        count[:families] = UNLIMITED  # a node in any case
        flow[:families] = sums[:-1, 1]
        target[:families] = lower[:families] = upper[:families] = remainder.totals_remaining - sums[:-1, 2]
    begin = families
    for level in remainder.levels:
        here = slice(begin, begin + level.target.size)
        begin = here.stop
        opened, started, settled = level.sums(stacked).reshape(-1, 3, children).swapaxes(0, 1).reshape(3, -1)
        count[here], flow[here] = opened, started
        price[here] = prices.passes[level.partition.in_pass] * level.partition.weight
        target[here] = level.target.ravel() - settled
        if level.lower is not None:
            lower[here] = level.lower.ravel() - settled
        if level.upper is not None:
            upper[here] = level.upper.ravel() - settled
    breaks = np.sort(np.minimum(np.maximum(np.stack([target, lower, upper]), 0), UNLIMITED), axis=0)
    return _Groups(families, count, flow, price, target, lower, upper, prices.bound, breaks)


def _first_slope(breaks: Integers, slopes: Integers) -> Integers:
    """The cost of the first unit: the slope of the first piece that is not empty."""
    piece = np.argmax(np.concatenate([breaks > 0, np.ones((1, breaks.shape[1]), np.bool_)]), axis=0)
    first: Integers = slopes[piece, np.arange(breaks.shape[1])]
    return first


def _pieces(
    below: Integers, above: Integers, flow: Integers, breaks: Integers, slopes: Integers
) -> tuple[tuple[Integers, Integers, Integers, Integers, Integers], Integers]:
    """Parallel arcs for convex costs: (tail, head, room, cost, flow); and which of them can take one unit more.

    Empty pieces are left out. Together they have room for any flow, so there is exactly one such arc above each node.
    """
    last = np.full((1, len(below)), UNLIMITED)
    begins = np.concatenate([np.zeros_like(last), breaks])
    rooms = np.concatenate([breaks, last]) - begins
    on = np.minimum(np.maximum(flow - begins, 0), rooms)
    piece, node = np.nonzero(rooms)
    room, used = rooms[piece, node], on[piece, node]
    basic = np.flatnonzero((begins[piece, node] <= flow[node]) & (used < room))
    return (below[node], above[node], room, slopes[piece, node], used), basic


# The primal network simplex method in whole numbers, from a given flow and spanning tree.
#
# A basis is a spanning tree with the ground as its root. All bases met are *strongly feasible*: from every node some
# flow could still be sent to the root along the tree. The leaving arc is chosen so that this stays true (the last
# blocking arc of the cycle, followed in the direction of the entering arc from the apex; Cunningham 1976), and then
# the method cannot cycle. The entering arc is the one of the most negative reduced cost within a block of arcs;
# blocks are looked through in turn, always from where the last search ended. Nothing depends on time, memory or
# chance: the same network gives the same flow.
#
# Reference: R. Ahuja, T. Magnanti, J. Orlin (1993), Network Flows, chapter 11.


Ints32 = npt.NDArray[np.int32]
_PIVOTS_PER_ARC = 200
_LEAST_PIVOTS = 10_000


def minimise(network: Network, *, apart: bool = False) -> tuple[Integers, int] | None:
    """The flow of least cost and the number of pivots, or None if the limit on pivots was reached (never seen).

    Args:
        network: Arcs, a first flow and a spanning tree.
        apart: Whether parts that meet at the ground alone are solved one by one.
    """
    flow = network.flow.copy()
    if apart:
        pivots = _one_by_one(
            network.tail, network.head, network.capacity, network.cost, flow, network.basis, _LEAST_PIVOTS
        )
        return None if pivots < 0 else (flow.astype(np.int64), int(pivots))
    limit = _LEAST_PIVOTS + _PIVOTS_PER_ARC * len(flow)
    block = max(16, int(np.sqrt(len(flow))))
    pivots = _simplex(
        network.tail, network.head, network.capacity, network.cost, flow, network.basis.copy(), block, limit
    )
    return None if pivots < 0 else (flow.astype(np.int64), int(pivots))


@numba.njit(
    "int64(int32[::1], int32[::1], int32[::1], int64[::1], int32[::1], int32[::1], int64, int64)",
    cache=True,
    nogil=True,
    boundscheck=False,
)
def _simplex(
    tail: Ints32,
    head: Ints32,
    capacity: Ints32,
    cost: Integers,
    flow: Ints32,
    above: Ints32,
    block: int,
    limit: int,
) -> int:
    """Changes ``flow`` and ``above`` (the tree arc of each node) in place; returns the pivots, or -1 at the limit."""
    nodes = above.shape[0]
    arcs = tail.shape[0]
    parent = np.full(nodes, -1, np.int32)
    child = np.full(nodes, -1, np.int32)
    previous = np.full(nodes, -1, np.int32)
    following = np.full(nodes, -1, np.int32)
    depth = np.zeros(nodes, np.int32)
    price = np.zeros(nodes, np.int64)
    stack = np.empty(nodes, np.int32)
    state = np.ones(arcs, np.int8)  # 1: empty, -1: full, 0: in the tree
    # Arcs outside the tree are empty or full.
    for arc in range(arcs):
        if flow[arc] > 0 and flow[arc] == capacity[arc]:
            state[arc] = -1
    # The tree: each node hangs below the other end of its arc; children of a node are a doubly linked list.
    for node in range(1, nodes):
        arc = above[node]
        state[arc] = 0
        up = head[arc] if tail[arc] == node else tail[arc]
        parent[node] = up
        following[node] = child[up]
        if child[up] >= 0:
            previous[child[up]] = node
        child[up] = node
    # Depths and prices from the root down: the reduced cost of a tree arc is 0.
    top = 1
    stack[0] = 0
    while top > 0:
        top -= 1
        up = stack[top]
        node = child[up]
        while node >= 0:
            arc = above[node]
            depth[node] = depth[up] + 1
            price[node] = price[up] - cost[arc] if tail[arc] == node else price[up] + cost[arc]
            stack[top] = node
            top += 1
            node = following[node]

    pivots = 0
    position = 0
    while True:
        # The entering arc.
        entering = -1
        best = 0
        seen = 0
        in_block = 0
        while seen < arcs:
            arc = position
            position += 1
            if position == arcs:
                position = 0
            seen += 1
            in_block += 1
            if state[arc] != 0:
                reduced = state[arc] * (cost[arc] + price[tail[arc]] - price[head[arc]])
                if reduced < best:
                    best = reduced
                    entering = arc
            if in_block == block:
                if entering >= 0:
                    break
                in_block = 0
        # No arc has a negative reduced cost: the flow is optimal.
        if entering < 0:
            return pivots
        pivots += 1
        if pivots > limit:
            return -1

        # The cycle runs from the apex down to ``first``, over the entering arc, and from ``second`` up again.
        if state[entering] > 0:
            first, second = tail[entering], head[entering]
        else:
            first, second = head[entering], tail[entering]
        # The apex: where the ways from both ends to the root meet. The deeper end goes up first.
        one, other = first, second
        while one != other:
            if depth[one] >= depth[other]:
                one = parent[one]
            else:
                other = parent[other]
        apex = one
        # How much can be sent around the cycle, and which tree arc stops it. On the side of ``first`` the nearest to
        # the entering arc is kept (<), on the other side the last (<=): the last blocking arc of the cycle, as strong
        # feasibility asks.
        amount = capacity[entering]
        leaving = -1
        on_first_side = False
        node = first
        while node != apex:
            arc = above[node]
            room = flow[arc] if tail[arc] == node else capacity[arc] - flow[arc]
            if room < amount:
                amount = room
                leaving = node
                on_first_side = True
            node = parent[node]
        node = second
        while node != apex:
            arc = above[node]
            room = capacity[arc] - flow[arc] if tail[arc] == node else flow[arc]
            if room <= amount:
                amount = room
                leaving = node
                on_first_side = False
            node = parent[node]
        # Send it. A degenerate pivot sends nothing and only changes the tree.
        if amount > 0:
            flow[entering] += state[entering] * amount
            node = first
            while node != apex:
                arc = above[node]
                flow[arc] += -amount if tail[arc] == node else amount
                node = parent[node]
            node = second
            while node != apex:
                arc = above[node]
                flow[arc] += amount if tail[arc] == node else -amount
                node = parent[node]
        # The entering arc itself was the limit: it goes from empty to full, or back, and the tree stays.
        if leaving < 0:
            state[entering] = -state[entering]
            continue

        # Hang the part below the leaving arc onto the other end of the entering arc.
        out = above[leaving]
        state[out] = 1 if flow[out] == 0 else -1
        node, up = (first, second) if on_first_side else (second, first)
        moved = node
        arc = entering
        # From the entering arc down to the leaving one: each node on the way hangs below the node that was its child.
        while True:
            old_up, old_arc = parent[node], above[node]
            # Out of the list of its old parent, ...
            if previous[node] >= 0:
                following[previous[node]] = following[node]
            else:
                child[old_up] = following[node]
            if following[node] >= 0:
                previous[following[node]] = previous[node]
            # ... and first in the list of the new one.
            parent[node] = up
            above[node] = arc
            previous[node] = -1
            following[node] = child[up]
            if child[up] >= 0:
                previous[child[up]] = node
            child[up] = node
            if node == leaving:
                break
            arc = old_arc
            up = node
            node = old_up
        # All prices below change by the same amount: the reduced cost of the entering arc becomes 0.
        change = cost[entering] + price[tail[entering]] - price[head[entering]]
        if tail[entering] == moved:
            change = -change
        state[entering] = 0
        top = 1
        stack[0] = moved
        while top > 0:
            top -= 1
            node = stack[top]
            price[node] += change
            depth[node] = depth[parent[node]] + 1
            below = child[node]
            while below >= 0:
                stack[top] = below
                top += 1
                below = following[below]


@numba.njit(
    "int64(int32[::1], int32[::1], int32[::1], int64[::1], int32[::1], int32[::1], int64)",
    cache=True,
    nogil=True,
    boundscheck=False,
)
def _one_by_one(
    tail: Ints32, head: Ints32, capacity: Ints32, cost: Integers, flow: Ints32, basis: Ints32, least: int
) -> int:
    """The simplex method for each part of a network that meets the others at the ground alone: changes ``flow`` in
    place; returns all pivots, or -1 at the limit. Parts are in the order of their first nodes."""
    nodes, arcs = basis.shape[0], tail.shape[0]
    # The first node of the part of each node: arcs put parts together, those of the ground do not.
    first = np.arange(nodes).astype(np.int32)
    for arc in range(arcs):
        one, other = tail[arc], head[arc]
        if one == 0 or other == 0:
            continue
        while first[one] != one:
            first[one] = first[first[one]]
            one = first[one]
        while first[other] != other:
            first[other] = first[first[other]]
            other = first[other]
        if one < other:
            first[other] = one
        else:
            first[one] = other
    for node in range(nodes):
        first[node] = first[first[node]]
    # The nodes of each part, and its arcs, side by side; the ground is node 0 of every part.
    local = np.zeros(nodes, np.int32)
    size = np.zeros(nodes, np.int32)
    for node in range(1, nodes):
        size[first[node]] += 1
        local[node] = size[first[node]]
    number = np.zeros(nodes + 1, np.int64)
    for arc in range(arcs):
        number[first[max(tail[arc], head[arc])] + 1] += 1
    for node in range(nodes):
        number[node + 1] += number[node]
    place = number[:-1].copy()
    order = np.empty(arcs, np.int64)
    position = np.empty(arcs, np.int32)
    for arc in range(arcs):
        part = first[max(tail[arc], head[arc])]
        order[place[part]] = arc
        position[arc] = place[part] - number[part]
        place[part] += 1
    # Where the nodes of each part are.
    begin = np.zeros(nodes + 1, np.int64)
    for node in range(nodes):
        begin[node + 1] = begin[node] + size[node]
    member = np.empty(max(nodes - 1, 0), np.int32)
    for node in range(1, nodes):
        member[begin[first[node]] + local[node] - 1] = node
    pivots = 0
    for part in range(nodes):
        count = number[part + 1] - number[part]
        if count == 0:
            continue
        tails, heads = np.empty(count, np.int32), np.empty(count, np.int32)
        rooms, flows = np.empty(count, np.int32), np.empty(count, np.int32)
        costs = np.empty(count, np.int64)
        for i in range(count):
            arc = order[number[part] + i]
            tails[i], heads[i] = local[tail[arc]], local[head[arc]]
            rooms[i], costs[i], flows[i] = capacity[arc], cost[arc], flow[arc]
        above = np.full(size[part] + 1, -1, np.int32)
        for i in range(size[part]):
            above[i + 1] = position[basis[member[begin[part] + i]]]
        block = max(16, int(np.sqrt(count)))
        taken = _simplex(tails, heads, rooms, costs, flows, above, block, least + 200 * count)
        if taken < 0:
            return -1
        pivots += taken
        for i in range(count):
            flow[order[number[part] + i]] = flows[i]
    return pivots
