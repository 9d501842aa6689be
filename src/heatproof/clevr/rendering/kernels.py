"""The path tracer's inner loops, compiled by Numba: shapes, materials, lamps, and the walk of light between them.

All of it is one file on purpose: Numba's cache looks only at the file of the function that is called from Python.
Vectors are tuples of three floats, which the compiler keeps in registers. Shapes are convex, so a ray that leaves one
never tests it again. Every pixel draws from a random stream of its own.

What decides which object is seen is compiled strictly: each sum and product is rounded as it is written, so ids are the
same on every processor. Light is compiled for speed: products are fused and sums reordered as the processor likes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

Vector: TypeAlias = tuple[float, float, float]
Floats: TypeAlias = NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])

INLINED: dict[str, Any] = {"error_model": "numpy", "forceinline": True, "_nrt": False}
CALLED: dict[str, Any] = {"error_model": "numpy", "cache": True, "nogil": True}
CUBE, SPHERE, CYLINDER = 0, 1, 2
GROUND, RUBBER, METAL = 0, 1, 2
LAMPS = 3  # square ones; the sun comes after them
FAR = 1e9
NEAR = 1e-4
GRAZING = 1e-3  # least cosine of a view
LIFT = 1e-3  # how far above a surface the next ray starts
MIRROR, SATIN, GLOSS = 0.01, 0.2, 0.35  # roughness of metal's two lobes and of rubber's
UNKNOWN = 1 << 63  # a set of objects that no scene has
GLARE = 30.0  # a mirrored lamp counts at most this bright, which keeps single samples from sparkling
BOUNCED = 2.0  # so does any other light that comes over a bounce


class World(NamedTuple):
    """One scene, packed for the kernels. n objects; lamps are key, back, fill, then the sun."""

    bounds: Floats  # (4, n): centres x, y, z and squared radii of bounding spheres
    radius: Floats  # (n,)
    turn: Floats  # (n, 2): cosine and sine of the rotation
    rounding: Floats  # (n,): radius of rounded edges
    shape: NDArray[np.int64]  # (n,)
    material: NDArray[np.int64]  # (n,)
    colour: Floats  # (n, 3)
    lamp_frame: Floats  # (4, 4, 3): centre (direction of the sun), axes across and up, normal
    lamp_light: Floats  # (4, 3)
    lamp_side: Floats  # (4,): side of the square; radius of the sun
    lamp_choice: Floats  # (4,): shares
    backdrop: Floats  # (2, m): along and height of the profile
    ground: Floats  # (5,): axis x, y, half width, begin, grey
    camera: Floats  # (5, 3): place, axes right, up, back; tangents of half the view
    windows: NDArray[np.int64]  # (n, 4): the pixels x0, x1, y0, y1 within which an object can be seen
    pixel_filter: Floats  # (k,): offsets from a pixel's centre at evenly spaced shares of the filter's weight


def strict(function: Function) -> Function:
    """Compile into whoever calls it, without counting references: both cost several times the work itself.

    Such functions may read arrays, but not make any.
    """
    return cast(Function, njit(**INLINED)(function))


def quick(function: Function) -> Function:
    """The same for light, whose last bits may hang on the processor."""
    return cast(Function, njit(fastmath=True, **INLINED)(function))


def entry(fastmath: bool) -> Callable[[Function], Function]:
    """Compile at the first call from Python and keep the result on disk."""
    return cast(Callable[[Function], Function], njit(fastmath=fastmath, **CALLED))


@strict
def dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@strict
def along(a: Vector, t: float, b: Vector) -> Vector:
    """a + t b"""
    return a[0] + t * b[0], a[1] + t * b[1], a[2] + t * b[2]


@strict
def unit(a: Vector) -> Vector:
    scale = 1.0 / math.sqrt(dot(a, a) + 1e-30)
    return scale * a[0], scale * a[1], scale * a[2]


@strict
def row(table: Floats, i: int) -> Vector:
    return table[i, 0], table[i, 1], table[i, 2]


@quick
def lamp_row(w: World, lamp: int, i: int) -> Vector:
    return w.lamp_frame[lamp, i, 0], w.lamp_frame[lamp, i, 1], w.lamp_frame[lamp, i, 2]


@quick
def draw(state: Any) -> Any:
    """SplitMix64: the next state and a number in [0, 1)."""
    state = state + uint64(0x9E3779B97F4A7C15)
    z = (state ^ (state >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    return state, ((z ^ (z >> uint64(31))) >> uint64(11)) * (1.0 / 9007199254740992.0)


@quick
def wrapped(value: float, shift: float) -> float:
    value += shift
    return value - 1.0 if value >= 1.0 else value


@quick
def on_circle(u: float) -> tuple[float, float]:
    """Cosine and sine of u turns, 0 <= u < 1, to 7e-4: faster than the library's, and of length 1 exactly."""
    h = math.pi * (u - 0.5)
    q = h * h
    s = h * (1.0 - q / 6.0 * (1.0 - q / 20.0 * (1.0 - q / 42.0 * (1.0 - q / 72.0 * (1.0 - q / 110.0)))))
    return 2.0 * s * s - 1.0, -2.0 * s * math.sqrt(max(1.0 - s * s, 0.0))


# Shapes


@quick
def may_hit(o: Vector, d: Vector, skip: int, bounds: Floats) -> Any:
    """The objects, as bits, whose bounding spheres the ray meets."""
    bits = uint64(0)
    for i in range(bounds.shape[1]):
        x, y, z = o[0] - bounds[0, i], o[1] - bounds[1, i], o[2] - bounds[2, i]
        outside = x * x + y * y + z * z - bounds[3, i]
        towards = x * d[0] + y * d[1] + z * d[2]
        hit = (towards * towards > outside) & ((towards < 0.0) | (outside < 0.0)) & (i != skip)
        bits |= uint64(hit) << uint64(i)
    return bits


@strict
def meet(o: Vector, d: Vector, i: int, nearest: float, w: World) -> Any:
    """Distance at which the ray enters object i; FAR if it does not, or not before `nearest`."""
    x, y, z = o[0] - w.bounds[0, i], o[1] - w.bounds[1, i], o[2] - w.bounds[2, i]
    r = w.radius[i]
    if w.shape[i] == SPHERE:
        b = x * d[0] + y * d[1] + z * d[2]
        discriminant = b * b - (x * x + y * y + z * z) + r * r
        if discriminant <= 0.0:
            return FAR
        t = -b - math.sqrt(discriminant)
        if t > NEAR:
            return t
        return FAR
    cos, sin = w.turn[i, 0], w.turn[i, 1]
    x, y = cos * x + sin * y, cos * y - sin * x
    dx, dy, dz = cos * d[0] + sin * d[1], cos * d[1] - sin * d[0], d[2]
    slope = 1.0 / dz if dz != 0.0 else 1e30
    enter, leave = -z * slope - abs(r * slope), -z * slope + abs(r * slope)
    if w.shape[i] == CUBE:
        slope = 1.0 / dx if dx != 0.0 else 1e30
        enter, leave = max(enter, -x * slope - abs(r * slope)), min(leave, -x * slope + abs(r * slope))
        slope = 1.0 / dy if dy != 0.0 else 1e30
        enter, leave = max(enter, -y * slope - abs(r * slope)), min(leave, -y * slope + abs(r * slope))
    else:
        a, b = dx * dx + dy * dy + 1e-30, x * dx + y * dy
        discriminant = b * b - a * (x * x + y * y - r * r)
        if discriminant <= 0.0:
            return FAR
        root = math.sqrt(discriminant)
        enter, leave = max(enter, (-b - root) / a), min(leave, (-b + root) / a)
    if enter >= leave or enter >= nearest or enter < NEAR:
        return FAR
    # From where the ray enters the sharp shape, walk by the distance to the rounded one.
    edge = w.rounding[i]
    core = r - edge
    t = enter
    for _ in range(40):
        gz = max(abs(z + t * dz) - core, 0.0)
        if w.shape[i] == CUBE:
            gx, gy = max(abs(x + t * dx) - core, 0.0), max(abs(y + t * dy) - core, 0.0)
            gap = math.sqrt(gx * gx + gy * gy + gz * gz) - edge
        else:
            px, py = x + t * dx, y + t * dy
            g = max(math.sqrt(px * px + py * py) - core, 0.0)
            gap = math.sqrt(g * g + gz * gz) - edge
        if gap < 2e-4 * r:
            return t
        t += gap
        if t > leave:
            return FAR
    return FAR


@quick
def normal_at(p: Vector, i: int, w: World) -> Vector:
    """The outward normal of object i at a point of its surface."""
    x, y, z = p[0] - w.bounds[0, i], p[1] - w.bounds[1, i], p[2] - w.bounds[2, i]
    if w.shape[i] == SPHERE:
        return unit((x, y, z))
    cos, sin = w.turn[i, 0], w.turn[i, 1]
    x, y = cos * x + sin * y, cos * y - sin * x
    core = w.radius[i] - w.rounding[i]
    nz = math.copysign(max(abs(z) - core, 0.0), z)
    if w.shape[i] == CUBE:
        nx, ny = math.copysign(max(abs(x) - core, 0.0), x), math.copysign(max(abs(y) - core, 0.0), y)
    else:
        axial = math.sqrt(x * x + y * y) + 1e-12
        beyond = max(axial - core, 0.0) / axial
        nx, ny = beyond * x, beyond * y
    return unit((cos * nx - sin * ny, sin * nx + cos * ny, nz))


@quick
def nearest_object(o: Vector, d: Vector, bits: Any, nearest: float, w: World) -> Any:
    """Distance and number of the nearest object among `bits`; number -1 if none is nearer than `nearest`."""
    found, i = -1, 0
    while bits:
        if bits & uint64(1):
            t = meet(o, d, i, nearest, w)
            if t < nearest:
                nearest, found = t, i
        bits >>= uint64(1)
        i += 1
    return nearest, found


@quick
def blocked(o: Vector, d: Vector, bits: Any, reach: float, w: World) -> bool:
    """Whether one of the objects in `bits` stands between o and the point `reach` away."""
    i = 0
    while bits:
        if bits & uint64(1) and meet(o, d, i, reach, w) < reach:
            return True
        bits >>= uint64(1)
        i += 1
    return False


@strict
def meet_ground(o: Vector, d: Vector, w: World) -> Any:
    """Distance to the ground or the wall behind, and the normal's parts along the axis and up.

    The profile is convex: along a ray from above it, once a point of the profile is higher than the ray, all further
    ones are, so the segment where they cross is found by halving.
    """
    ou, du = o[0] * w.ground[0] + o[1] * w.ground[1], d[0] * w.ground[0] + d[1] * w.ground[1]
    if d[2] < 0.0 and ou < w.backdrop[0, 1]:
        t = -o[2] / d[2]
        if t > NEAR and ou + t * du < w.backdrop[0, 1]:
            return t, 0.0, 1.0
    low, high = 0, w.backdrop.shape[1]
    while low < high:  # the first point of the profile that is further along than o
        middle = (low + high) >> 1
        if w.backdrop[0, middle] > ou:
            high = middle
        else:
            low = middle + 1
    low, high = (low, w.backdrop.shape[1]) if du >= 0.0 else (0, low)
    while low < high:  # the right end of the segment that the ray crosses
        middle = (low + high) >> 1
        if du * (w.backdrop[1, middle] - o[2]) >= d[2] * (w.backdrop[0, middle] - ou):
            high = middle
        else:
            low = middle + 1
    if low == 0 or low == w.backdrop.shape[1]:
        return FAR, 0.0, 1.0
    su, sz = w.backdrop[0, low] - w.backdrop[0, low - 1], w.backdrop[1, low] - w.backdrop[1, low - 1]
    t = ((w.backdrop[0, low] - ou) * sz - (w.backdrop[1, low] - o[2]) * su) / (du * sz - d[2] * su)
    if not t > NEAR:
        return FAR, 0.0, 1.0
    length = 1.0 / math.sqrt(su * su + sz * sz)
    return t, -sz * length, su * length


# Materials


@quick
def fresnel(cosine: float, index: float) -> float:
    """Share of light that a dielectric reflects."""
    g = math.sqrt(index * index - 1.0 + cosine * cosine)
    a, b = (g - cosine) / (g + cosine), (cosine * (g + cosine) - 1.0) / (cosine * (g - cosine) + 1.0)
    return 0.5 * a * a * (1.0 + b * b)


@quick
def shadowing(cosine: float, roughness: float) -> float:
    return 2.0 / (1.0 + math.sqrt(1.0 + roughness * roughness * (1.0 / (cosine * cosine) - 1.0)))


@quick
def microfacets(nh: float, ni: float, no: float, roughness: float) -> float:
    """GGX reflection times the cosine of the incoming light."""
    square = roughness * roughness
    spread = nh * nh * (square - 1.0) + 1.0
    density = square / (math.pi * spread * spread)
    return density * shadowing(ni, roughness) * shadowing(no, roughness) / (4.0 * no)


@quick
def velvet(nh: float, ho: float, ni: float, no: float) -> float:
    """Ashikhmin's velvet of width 0.6 times the cosine of the incoming light."""
    sine = 1.0 - nh * nh
    if sine < 2e-5:
        return 0.0
    fold = 2.0 * nh / max(ho, 1e-5)
    inverse = 1.0 / 0.36
    density = math.exp(-nh * nh / sine * inverse) * inverse / (math.pi * sine * sine)
    return 0.25 * density * min(1.0, fold * no, fold * ni) / no


@quick
def reflected(material: int, n: Vector, d: Vector, to_lamp: Vector, ni: float, no: float, blurred: bool) -> Any:
    """Shares of the light from `to_lamp` that go back along the ray: tinted by the colour, and white.

    Light that has bounced off something rough already sees metal's mirror as satin too.
    """
    if material == GROUND:
        return ni / math.pi, 0.0
    half = unit((to_lamp[0] - d[0], to_lamp[1] - d[1], to_lamp[2] - d[2]))
    nh, ho = dot(n, half), -dot(d, half)
    if material == METAL:
        return (1.0 if blurred else 0.4) * microfacets(nh, ni, no, SATIN), 0.0
    coat, fuzz = fresnel(no, 1.2), fresnel(no, 1.4)
    matt = (1.0 - fuzz) * ni / math.pi
    if fuzz > 0.0:
        matt += fuzz * velvet(nh, ho, ni, no)
    return (1.0 - coat) * matt, 0.8 * coat * microfacets(nh, ni, no, GLOSS)


@quick
def frame(n: Vector) -> Any:
    """Two directions at right angles to the normal and to each other."""
    sign = math.copysign(1.0, n[2])
    a = -1.0 / (sign + n[2])
    b = n[0] * n[1] * a
    return (1.0 + sign * n[0] * n[0] * a, sign * b, -sign * n[0]), (b, sign + n[1] * n[1] * a, -n[1])


@quick
def around(n: Vector, x: float, y: float, z: float) -> Vector:
    """The direction with coordinates x, y, z in a frame whose third axis is the normal."""
    t, s = frame(n)
    return x * t[0] + y * s[0] + z * n[0], x * t[1] + y * s[1] + z * n[1], x * t[2] + y * s[2] + z * n[2]


@quick
def bounce(material: int, n: Vector, d: Vector, pick: float, u: float, v: float, blurred: bool) -> Any:
    """A random next direction: (direction, weight, whether the colour tints it, roughness); weight 0 ends the path."""
    weight, tinted, roughness = 1.0, True, 1.0
    no = max(-dot(n, d), GRAZING)
    if material == METAL:
        roughness = SATIN if blurred or pick < 0.4 else MIRROR
    elif material == RUBBER:
        coat = fresnel(no, 1.2)
        chance = 0.8 * coat / (0.8 * coat + 0.5 * (1.0 - coat))
        if pick < chance:
            weight, tinted, roughness = 0.8 * coat / chance, False, GLOSS
        else:
            weight = (1.0 - coat) / (1.0 - chance)  # velvet taken as matt: hardly seen over a bounce
    cos, sin = on_circle(u)
    if roughness == 1.0:
        side = math.sqrt(v)
        d = around(n, side * cos, side * sin, math.sqrt(1.0 - v))
        return d, weight, tinted, roughness
    cosine = math.sqrt((1.0 - v) / (1.0 + (roughness * roughness - 1.0) * v))
    side = math.sqrt(max(0.0, 1.0 - cosine * cosine))
    half = around(n, side * cos, side * sin, cosine)
    oh = -dot(d, half)
    d = along(d, 2.0 * oh, half)
    ni = dot(n, d)
    if oh <= 0.0 or ni <= 1e-3:
        return d, 0.0, tinted, roughness
    weight *= min(2.0, shadowing(ni, roughness) * shadowing(no, roughness) * oh / (no * max(cosine, 1e-4)))
    return d, weight, tinted, roughness


# Lamps


@quick
def towards_lamp(p: Vector, lamp: int, u: float, v: float, w: World) -> Any:
    """Direction and distance to a random point of the lamp, and the solid angle that it stands for."""
    centre, across, up = lamp_row(w, lamp, 0), lamp_row(w, lamp, 1), lamp_row(w, lamp, 2)
    side = w.lamp_side[lamp]
    if lamp == LAMPS:
        radius = side * math.sqrt(u)
        cos, sin = on_circle(v)
        d = along(along(centre, radius * cos, across), radius * sin, up)
        return unit(d), FAR, 1.0
    d = along(along(along(centre, (u - 0.5) * side, across), (v - 0.5) * side, up), -1.0, p)
    square = dot(d, d)
    distance = math.sqrt(square)
    scale = 1.0 / distance
    d = (scale * d[0], scale * d[1], scale * d[2])
    facing = -dot(d, lamp_row(w, lamp, 3))
    return d, distance, max(facing, 0.0) * side * side / square


@quick
def may_shade(p: Vector, slack: float, lamp: int, skip: int, w: World) -> Any:
    """The objects, as bits, that can stand between any part of the lamp and any point within `slack` of p."""
    centre = lamp_row(w, lamp, 0)
    if lamp == LAMPS:
        axis, length, widening = centre, FAR, w.lamp_side[lamp]
    else:
        axis = along(centre, -1.0, p)
        length = math.sqrt(dot(axis, axis))
        axis = unit(axis)
        widening = math.sqrt(0.5) * w.lamp_side[lamp] / length
    bits = uint64(0)
    for i in range(len(w.radius)):
        c = (w.bounds[0, i] - p[0], w.bounds[1, i] - p[1], w.bounds[2, i] - p[2])
        t = min(max(dot(c, axis), 0.0), length)
        off = along(c, -t, axis)
        reach = math.sqrt(w.bounds[3, i]) + slack + widening * t
        if i != skip and dot(off, off) * (1.0 - widening * widening) <= reach * reach:
            bits |= uint64(1) << uint64(i)
    return bits


@quick
def mirrored_lamps(o: Vector, d: Vector, nearest: float, w: World) -> Vector:
    """Light of the lamps that a mirrored ray meets before anything else."""
    red, green, blue = 0.0, 0.0, 0.0
    for lamp in range(LAMPS):
        n = lamp_row(w, lamp, 3)
        facing = dot(d, n)
        from_o = along(lamp_row(w, lamp, 0), -1.0, o)
        t = dot(from_o, n) / facing
        if facing < 0.0 and NEAR < t < nearest:
            off, half = along(from_o, -t, d), 0.5 * w.lamp_side[lamp]
            if abs(dot(off, lamp_row(w, lamp, 1))) < half and abs(dot(off, lamp_row(w, lamp, 2))) < half:
                red += min(w.lamp_light[lamp, 0], GLARE)
                green += min(w.lamp_light[lamp, 1], GLARE)
                blue += min(w.lamp_light[lamp, 2], GLARE)
    radius = w.lamp_side[LAMPS]
    if nearest == FAR and dot(d, lamp_row(w, LAMPS, 0)) > 1.0 - 0.5 * radius * radius:
        sun = w.lamp_light[LAMPS, 0] / (math.pi * radius * radius)
        red, green, blue = red + sun, green + sun, blue + sun
    return red, green, blue


@quick
def chosen_lamp(pick: float, w: World) -> int:
    for lamp in range(LAMPS):
        pick -= w.lamp_choice[lamp]
        if pick < 0.0:
            return lamp
    return LAMPS


# The picture


@strict
def camera_ray(x: float, y: float, width: int, height: int, w: World) -> Vector:
    """Direction of the view through the point (x, y), in pixels."""
    across = (x / width * 2.0 - 1.0) * w.camera[4, 0]
    up = (1.0 - y / height * 2.0) * w.camera[4, 1]
    ahead = (-w.camera[3, 0], -w.camera[3, 1], -w.camera[3, 2])
    return unit(along(along(ahead, across, row(w.camera, 1)), up, row(w.camera, 2)))


@quick
def in_window(x: int, y: int, w: World) -> Any:
    """The objects, as bits, that can be seen in a pixel."""
    bits = uint64(0)
    for i in range(len(w.radius)):
        inside = w.windows[i, 0] <= x < w.windows[i, 1] and w.windows[i, 2] <= y < w.windows[i, 3]
        bits |= uint64(inside) << uint64(i)
    return bits


@entry(fastmath=False)
def object_ids(width: int, height: int, w: World) -> NDArray[np.uint8]:
    """Which object is seen at each pixel's centre: k for object k - 1, 0 for none."""
    ids = np.zeros((height, width), np.uint8)
    depth = np.full((height, width), FAR)
    o = row(w.camera, 0)
    for i in range(len(w.radius)):
        for y in range(max(w.windows[i, 2], 0), min(w.windows[i, 3], height)):
            for x in range(max(w.windows[i, 0], 0), min(w.windows[i, 1], width)):
                d = camera_ray(x + 0.5, y + 0.5, width, height, w)
                t = meet(o, d, i, depth[y, x], w)
                if t < depth[y, x] and t < meet_ground(o, d, w)[0]:
                    ids[y, x], depth[y, x] = i + 1, t
    return ids


@quick
def surface(o: Vector, d: Vector, bits: Any, w: World) -> Any:
    """What a ray meets among `bits` and the ground: distance, object, point, normal, material, colour."""
    ground, ahead, up = meet_ground(o, d, w)
    t, item = nearest_object(o, d, bits, ground, w)
    p = along(o, t, d)
    if item >= 0:
        return t, item, p, normal_at(p, item, w), w.material[item], row(w.colour, item)
    x, y, grey = w.ground[0], w.ground[1], w.ground[4]
    if abs(p[1] * x - p[0] * y) > w.ground[2] or p[0] * x + p[1] * y < w.ground[3]:
        t = FAR  # beyond the edge of the ground
    return t, item, p, (ahead * x, ahead * y, up), GROUND, (grey, grey, grey)


@quick
def light_from(
    lamp: int, u: float, v: float, p: Vector, n: Vector, d: Vector, item: int, material: int, base: Vector,
    blurred: bool, between: Any, w: World,
) -> Vector:  # fmt: skip
    """Light of one lamp that a surface sends back along the ray; `between`: which objects might shade it, if known."""
    to_lamp, distance, solid = towards_lamp(p, lamp, u, v, w)
    ni, no = dot(n, to_lamp), max(-dot(n, d), GRAZING)
    if ni <= 0.0 or solid <= 0.0:
        return 0.0, 0.0, 0.0
    tinted, white = reflected(material, n, d, to_lamp, ni, no, blurred)
    if tinted + white < 1e-6:
        return 0.0, 0.0, 0.0
    if between == UNKNOWN:
        between = may_hit(p, to_lamp, item, w.bounds)
    if between and blocked(p, to_lamp, between, distance, w):
        return 0.0, 0.0, 0.0
    return (
        (tinted * base[0] + white) * w.lamp_light[lamp, 0] * solid,
        (tinted * base[1] + white) * w.lamp_light[lamp, 1] * solid,
        (tinted * base[2] + white) * w.lamp_light[lamp, 2] * solid,
    )


@quick
def add_capped(total: Vector, weight: Vector, light: Vector, scale: float, cap: float) -> Vector:
    return (
        total[0] + min(weight[0] * light[0] * scale, cap),
        total[1] + min(weight[1] * light[1] * scale, cap),
        total[2] + min(weight[2] * light[2] * scale, cap),
    )


@quick
def further_light(
    o: Vector, d: Vector, item: int, weight: Vector, mirrored: bool, blurred: bool, left: int, state: Any, w: World
) -> Any:
    """Light that comes back along a ray that has bounced once, over at most `left` surfaces; and the random state."""
    total = (0.0, 0.0, 0.0)
    while True:
        t, item, p, n, material, base = surface(o, d, may_hit(o, d, item, w.bounds), w)
        if mirrored:
            total = add_capped(total, weight, mirrored_lamps(o, d, t, w), 1.0, FAR)
        if t == FAR:
            return total, state
        p = along(p, LIFT, n)
        begin, end, scale = 0, LAMPS + 1, 1.0
        if blurred:  # one lamp, drawn at random, is enough
            state, pick = draw(state)
            begin = chosen_lamp(pick, w)
            end, scale = begin + 1, 1.0 / w.lamp_choice[begin]
        for lamp in range(begin, end):
            state, u = draw(state)
            state, v = draw(state)
            light = light_from(lamp, u, v, p, n, d, item, material, base, blurred, UNKNOWN, w)
            total = add_capped(total, weight, light, scale, BOUNCED)
        left -= 1
        if left == 0:
            return total, state
        state, u = draw(state)
        state, v = draw(state)
        state, pick = draw(state)
        d, gain, tints, roughness = bounce(material, n, d, pick, u, v, blurred)
        weight = weighed(weight, gain, base, tints)
        if max(weight) < 0.02:
            return total, state
        mirrored, blurred = roughness == MIRROR, blurred or roughness >= GLOSS
        o = p


@quick
def weighed(weight: Vector, gain: float, base: Vector, tints: bool) -> Vector:
    if tints:
        return weight[0] * gain * base[0], weight[1] * gain * base[1], weight[2] * gain * base[2]
    return weight[0] * gain, weight[1] * gain, weight[2] * gain


@entry(fastmath=True)
def trace(first: int, last: int, width: int, height: int, samples: int, vertices: int, seed: Any, w: World) -> Any:
    """Linear light, colour of surfaces and normals of the rows first to last - 1."""
    pictures = np.zeros((3, last - first, width, 3), np.float32)
    shade = np.zeros(LAMPS + 1, np.uint64)
    shift = np.zeros(2 * (LAMPS + 3))  # pairs: the pixel filter, each lamp, the bounce
    steps = len(w.pixel_filter) - 1
    camera = row(w.camera, 0)
    slack_per_length = 6.0 * w.camera[4, 1] / height
    for y in range(first, last):
        for x in range(width):
            state = uint64(seed) + uint64(y * width + x) * uint64(0xD1B54A32D192ED03)
            for k in range(len(shift)):
                state, shift[k] = draw(state)
            candidates = in_window(x, y, w)
            shade_item, shade_at, shade_slack = -2, camera, 0.0
            light = albedo = normal = (0.0, 0.0, 0.0)
            step_u, step_v = 0.0, 0.0
            for _ in range(samples):
                # Points of the R2 sequence, shifted at random for each use: they cover the square evenly.
                step_u, step_v = wrapped(step_u, 0.7548776662466927), wrapped(step_v, 0.5698402909980532)
                u, v = wrapped(step_u, shift[0]) * steps, wrapped(step_v, shift[1]) * steps
                i, j = int(u), int(v)
                fx = w.pixel_filter[i] + (u - i) * (w.pixel_filter[i + 1] - w.pixel_filter[i])
                fy = w.pixel_filter[j] + (v - j) * (w.pixel_filter[j + 1] - w.pixel_filter[j])
                d = camera_ray(x + 0.5 + fx, y + 0.5 + fy, width, height, w)
                t, item, p, n, material, base = surface(camera, d, candidates, w)
                if t == FAR:
                    continue
                p = along(p, LIFT, n)
                albedo, normal = along(albedo, 1.0, base), along(normal, 1.0, n)
                # Which objects can shade this place is worth knowing once for all samples of the pixel.
                off = along(p, -1.0, shade_at)
                if item != shade_item or dot(off, off) > shade_slack * shade_slack:
                    shade_item, shade_at, shade_slack = item, p, t * slack_per_length
                    for lamp in range(LAMPS + 1):
                        shade[lamp] = may_shade(p, shade_slack, lamp, item, w)
                for lamp in range(LAMPS + 1):
                    u, v = wrapped(step_u, shift[2 * lamp + 2]), wrapped(step_v, shift[2 * lamp + 3])
                    found = light_from(lamp, u, v, p, n, d, item, material, base, False, shade[lamp], w)
                    light = along(light, 1.0, found)
                if vertices > 1:
                    u, v = wrapped(step_u, shift[-2]), wrapped(step_v, shift[-1])
                    state, pick = draw(state)
                    d, gain, tints, roughness = bounce(material, n, d, pick, u, v, False)
                    if gain > 0.0:
                        weight = weighed((1.0, 1.0, 1.0), gain, base, tints)
                        found, state = further_light(
                            p, d, item, weight, roughness == MIRROR, roughness >= GLOSS, vertices - 1, state, w
                        )
                        light = along(light, 1.0, found)
            for k, total in enumerate((light, albedo, normal)):
                for c in range(3):
                    pictures[k, y - first, x, c] = total[c] / samples
    return pictures
