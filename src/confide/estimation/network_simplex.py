"""The primal network simplex method in whole numbers, from a given flow and spanning tree.

A basis is a spanning tree with the ground as its root. All bases met are *strongly feasible*: from every node some
flow could still be sent to the root along the tree. The leaving arc is chosen so that this stays true (the last
blocking arc of the cycle, followed in the direction of the entering arc from the apex; Cunningham 1976), and then the
method cannot cycle. The entering arc is the one of the most negative reduced cost within a block of arcs; blocks are
looked through in turn, always from where the last search ended. Nothing depends on time, memory or chance: the same
network gives the same flow.

Reference: R. Ahuja, T. Magnanti, J. Orlin (1993), Network Flows, chapter 11.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from confide.estimation.network import Network
from confide.estimation.rounding_problem import Ints

Ints32 = npt.NDArray[np.int32]
_PIVOTS_PER_ARC = 200
_LEAST_PIVOTS = 10_000


def minimise(network: Network) -> tuple[Ints, int] | None:
    """The flow of least cost and the number of pivots, or None if the limit on pivots was reached (never seen)."""
    flow = network.flow.copy()
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
    cost: Ints,
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
    left = np.full(nodes, -1, np.int32)
    right = np.full(nodes, -1, np.int32)
    depth = np.zeros(nodes, np.int32)
    price = np.zeros(nodes, np.int64)
    stack = np.empty(nodes, np.int32)
    state = np.ones(arcs, np.int8)  # 1: empty, -1: full, 0: in the tree
    for arc in range(arcs):
        if flow[arc] > 0 and flow[arc] == capacity[arc]:
            state[arc] = -1
    for node in range(1, nodes):
        arc = above[node]
        state[arc] = 0
        up = head[arc] if tail[arc] == node else tail[arc]
        parent[node] = up
        right[node] = child[up]
        if child[up] >= 0:
            left[child[up]] = node
        child[up] = node
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
            node = right[node]

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
        one, other = first, second
        while one != other:
            if depth[one] >= depth[other]:
                one = parent[one]
            else:
                other = parent[other]
        apex = one
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
        if leaving < 0:
            state[entering] = -state[entering]
            continue

        # Hang the part below the leaving arc onto the other end of the entering arc.
        out = above[leaving]
        state[out] = 1 if flow[out] == 0 else -1
        node, up = (first, second) if on_first_side else (second, first)
        moved = node
        arc = entering
        while True:
            old_up, old_arc = parent[node], above[node]
            if left[node] >= 0:
                right[left[node]] = right[node]
            else:
                child[old_up] = right[node]
            if right[node] >= 0:
                left[right[node]] = left[node]
            parent[node] = up
            above[node] = arc
            left[node] = -1
            right[node] = child[up]
            if child[up] >= 0:
                left[child[up]] = node
            child[up] = node
            if node == leaving:
                break
            arc = old_arc
            up = node
            node = old_up
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
                below = right[below]
