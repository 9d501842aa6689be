"""What is the same in every CLEVR picture: lamps, backdrop, materials, sizes and colours, as measured on the original.

Lengths are scene units; the light of a lamp is what its surface sends out (red, green, blue).
"""

from __future__ import annotations

SIZES = {"large": 0.7, "small": 0.35}
SHAPES = ("cube", "sphere", "cylinder")
MATERIALS = ("rubber", "metal")
COLOURS = {
    "gray": (87, 87, 87),
    "red": (173, 35, 35),
    "blue": (42, 75, 215),
    "green": (29, 105, 20),
    "brown": (129, 74, 25),
    "purple": (129, 38, 192),
    "cyan": (41, 208, 208),
    "yellow": (255, 238, 51),
}
"""Colours of objects; divided by 255 they are linear light, as the original takes them."""

CAMERA = (7.481131553649902, -6.5076398849487305, 5.34366512298584)
CAMERA_JITTER = 0.5
LAMPS = {
    "key": (6.446710109710693, -2.905174732208252, 4.258398056030273),
    "back": (-1.168501377105713, 2.646024465560913, 5.815736770629883),
    "fill": (-4.671124458312988, -4.01359748840332, 3.0112245082855225),
}
"""Where the lamps stand before they are jittered; each is a square that faces the origin."""
LAMP_JITTER = 1.0
LAMP_LIGHT = {"key": (100.0, 93.23, 81.67), "back": (12.5, 12.5, 12.5), "fill": (22.851, 24.531, 30.0)}
LAMP_SIDE = {"key": 0.5, "back": 1.0, "fill": 0.5}
LAMP_CHOICE = {"key": 0.4, "back": 0.25, "fill": 0.2, "sun": 0.15}
"""How often light that has bounced asks each lamp."""

SUN_DIRECTION = (0.4145, -0.19458, 0.88901)
SUN_STRENGTH = 0.45
SUN_RADIUS = 0.1
"""Tangent of half the angle under which the sun is seen."""

EDGE_ROUNDING = {"cube": 0.177, "cylinder": 0.054}
"""Radius of rounded edges, for a shape of radius 1."""

BACKDROP_AXIS = (-0.90321, 0.4292)
"""The ground is the same all across this axis; along it, it rises to a wall."""
BACKDROP = (
    (-60.0, 0.0), (0.0, 0.0), (4.0, 0.03), (5.6, 0.053), (7.0, 0.1), (8.3, 0.172), (9.4, 0.26), (10.45, 0.4),
    (11.34, 0.59), (12.13, 0.844), (12.83, 1.171), (13.44, 1.584), (14.0, 2.02), (14.46, 2.53), (14.87, 3.15),
    (15.28, 3.99), (15.65, 5.0), (15.97, 6.18), (16.26, 7.57), (16.55, 9.17), (16.84, 11.02), (17.23, 14.1),
    (17.7, 18.67), (18.1, 23.2),
)  # fmt: skip
"""Points (along, height) of its profile, which is flat at first and convex."""
BACKDROP_HALF_WIDTH = 30.0
BACKDROP_BEGIN = -9.6
"""The original's ground ends here; rays that miss it see black."""
BACKDROP_GREY = 0.8
