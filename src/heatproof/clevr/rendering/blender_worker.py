"""Runs under a Python that has `bpy`: reads orders as lines of JSON, renders with Cycles, answers in lines of JSON.

A script of its own that needs neither Heatproof nor anything else; `blender.py` starts it. Its one argument is a JSON
object with the user's own asset files, or an empty one: then shapes, materials, lamps and backdrop are built here.
"""

from __future__ import annotations

import json
import math
import sys
from typing import Any

MARK = "heatproof:"


def answer(**content: Any) -> None:
    print(MARK + json.dumps(content), flush=True)


def main() -> None:
    assets: dict[str, str] = json.loads(sys.argv[1])
    try:
        import bpy
    except ImportError:
        answer(ready=False)
        return
    answer(ready=True)
    for line in sys.stdin:
        try:
            order = json.loads(line)
            if assets:
                set_original_stage(bpy, order, assets)
            else:
                set_stage(bpy, order)
            for thing in order["objects"]:
                add_object(bpy, thing, assets)
            render(bpy, order)
            answer(done=True)
        except Exception as problem:  # whatever it is, the other side must hear of it
            answer(problem=f"{type(problem).__name__}: {problem}")


def set_stage(bpy: Any, order: dict[str, Any]) -> None:
    """An empty scene with camera, lamps and backdrop."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    scene = bpy.context.scene
    scene.world = bpy.data.worlds.new("dark")
    scene.world.use_nodes = True
    scene.world.node_tree.nodes["Background"].inputs["Strength"].default_value = 0.0
    camera = add(bpy, "Camera", bpy.data.cameras.new("Camera"), order["camera"]["place"])
    camera.data.sensor_fit = "HORIZONTAL"
    camera.data.angle_x = 2 * math.atan(order["camera"]["half_view"])
    face_origin(camera)
    scene.camera = camera
    for lamp in order["lamps"]:
        light = bpy.data.lights.new(lamp["name"], "AREA")
        light.shape, light.size, light.energy, light.color = "SQUARE", lamp["side"], lamp["watts"], lamp["tint"]
        face_origin(add(bpy, lamp["name"], light, lamp["place"]))
    sun = bpy.data.lights.new("sun", "SUN")
    sun.energy, sun.angle = order["sun"]["strength"], 2 * math.atan(order["sun"]["radius"])
    face_origin(add(bpy, "sun", sun, order["sun"]["direction"]))
    add_backdrop(bpy, order["backdrop"])


def add(bpy: Any, name: str, data: Any, place: list[float]) -> Any:
    item = bpy.data.objects.new(name, data)
    item.location = place
    bpy.context.scene.collection.objects.link(item)
    return item


def face_origin(item: Any) -> None:
    """Turn something that looks along its own -Z to the origin, upright."""
    item.rotation_mode = "QUATERNION"
    item.rotation_quaternion = (-item.location).to_track_quat("-Z", "Y")


def add_backdrop(bpy: Any, backdrop: dict[str, Any]) -> None:
    """The ground and the wall behind: the profile, drawn out sideways."""
    (x, y), half = backdrop["axis"], backdrop["half_width"]
    profile = [(max(along, backdrop["begin"]), height) for along, height in backdrop["profile"]]
    corners = [
        (x * along - side * y * half, y * along + side * x * half, height)
        for along, height in profile
        for side in (-1, 1)
    ]
    faces = [(2 * i, 2 * i + 2, 2 * i + 3, 2 * i + 1) for i in range(len(profile) - 1)]
    mesh = bpy.data.meshes.new("backdrop")
    mesh.from_pydata(corners, [], faces)
    item = add(bpy, "backdrop", mesh, [0.0, 0.0, 0.0])
    material, nodes, link = new_material(bpy, "backdrop")
    diffuse = nodes.new("ShaderNodeBsdfDiffuse")
    diffuse.inputs["Color"].default_value = (*[backdrop["grey"]] * 3, 1.0)
    link(diffuse.outputs["BSDF"], nodes["Material Output"].inputs["Surface"])
    item.data.materials.append(material)


def set_original_stage(bpy: Any, order: dict[str, Any], assets: dict[str, str]) -> None:
    """The original scene file, with camera and lamps moved; constraints in it keep them facing the origin."""
    bpy.ops.wm.open_mainfile(filepath=assets["scene"])
    items = bpy.data.objects
    places = {f"Lamp_{lamp['name'].capitalize()}": lamp["place"] for lamp in order["lamps"]}
    for name, place in ({"Camera": order["camera"]["place"]} | places).items():
        items[name].location = place
        if not items[name].constraints:
            face_origin(items[name])


def add_object(bpy: Any, thing: dict[str, Any], assets: dict[str, str]) -> None:
    item = load_shape(bpy, thing, assets[thing["shape"]]) if assets else build_shape(bpy, thing)
    item.location = thing["place"]
    item.rotation_mode = "XYZ"
    item.rotation_euler = (0.0, 0.0, thing["turn"])
    item.data.materials.clear()
    colour = (*thing["colour"], 1.0)
    if assets:
        item.data.materials.append(load_material(bpy, assets[thing["material"]], colour))
    else:
        item.data.materials.append({"rubber": rubber, "metal": metal}[thing["material"]](bpy, colour))


def build_shape(bpy: Any, thing: dict[str, Any]) -> Any:
    """A sphere, or a cube or cylinder with rounded edges."""
    radius = thing["radius"]
    if thing["shape"] == "sphere":
        bpy.ops.mesh.primitive_uv_sphere_add(segments=128, ring_count=64, radius=radius)
    elif thing["shape"] == "cube":
        bpy.ops.mesh.primitive_cube_add(size=2 * radius)
    else:
        bpy.ops.mesh.primitive_cylinder_add(vertices=192, radius=radius, depth=2 * radius)
    item = bpy.context.active_object
    for face in item.data.polygons:
        face.use_smooth = True
    if thing["rounding"]:
        bevel = item.modifiers.new("rounded", "BEVEL")
        bevel.width, bevel.segments, bevel.limit_method, bevel.angle_limit = thing["rounding"], 8, "ANGLE", 0.8
        bevel.harden_normals = True
    return item


def load_shape(bpy: Any, thing: dict[str, Any], path: str) -> Any:
    """The user's own shape, which has radius 1."""
    with bpy.data.libraries.load(path) as (there, here):
        here.objects = [name for name in there.objects if name == stem(path)] or there.objects[:1]
    item = here.objects[0]
    bpy.context.scene.collection.objects.link(item)
    item.scale = [thing["radius"]] * 3
    return item


def load_material(bpy: Any, path: str, colour: tuple[float, ...]) -> Any:
    """The user's own material: a group of nodes with an input for the colour."""
    with bpy.data.libraries.load(path) as (there, here):
        here.node_groups = [name for name in there.node_groups if name == stem(path)] or there.node_groups[:1]
    material, nodes, link = new_material(bpy, stem(path))
    group = nodes.new("ShaderNodeGroup")
    group.node_tree = here.node_groups[0]
    group.inputs["Color"].default_value = colour
    link(group.outputs[0], nodes["Material Output"].inputs["Surface"])
    return material


def stem(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0]


def new_material(bpy: Any, name: str) -> Any:
    """A material with nothing but its output, its nodes, and a function that connects them."""
    material = bpy.data.materials.new(name)
    material.use_nodes = True
    tree = material.node_tree
    tree.nodes.clear()
    tree.nodes.new("ShaderNodeOutputMaterial").name = "Material Output"
    return material, tree.nodes, tree.links.new


def glossy(nodes: Any, alpha: float, colour: tuple[float, ...]) -> Any:
    node = nodes.new("ShaderNodeBsdfAnisotropic")
    node.distribution = "GGX"
    node.inputs["Roughness"].default_value = math.sqrt(alpha)  # Cycles squares it
    node.inputs["Color"].default_value = colour
    return node.outputs["BSDF"]


def mixed(nodes: Any, link: Any, share: Any, first: Any, second: Any) -> Any:
    """(1 - share) of the first shader and share of the second; the share is a number or a socket."""
    node = nodes.new("ShaderNodeMixShader")
    if isinstance(share, float):
        node.inputs[0].default_value = share
    else:
        link(share, node.inputs[0])
    link(first, node.inputs[1])
    link(second, node.inputs[2])
    return node.outputs[0]


def fresnel(nodes: Any, index: float) -> Any:
    node = nodes.new("ShaderNodeFresnel")
    node.inputs["IOR"].default_value = index
    return node.outputs[0]


def rubber(bpy: Any, colour: tuple[float, ...]) -> Any:
    """Matt with a bloom of velvet, under a thin dull coat."""
    material, nodes, link = new_material(bpy, "rubber")
    diffuse = nodes.new("ShaderNodeBsdfDiffuse")
    velvet = nodes.new("ShaderNodeBsdfSheen")
    velvet.distribution = "ASHIKHMIN"
    velvet.inputs["Roughness"].default_value = 0.6
    for node in (diffuse, velvet):
        node.inputs["Color"].default_value = colour
    matt = mixed(nodes, link, fresnel(nodes, 1.4), diffuse.outputs["BSDF"], velvet.outputs["BSDF"])
    coat = glossy(nodes, 0.35, (0.8, 0.8, 0.8, 1.0))
    link(mixed(nodes, link, fresnel(nodes, 1.2), matt, coat), nodes["Material Output"].inputs["Surface"])
    return material


def metal(bpy: Any, colour: tuple[float, ...]) -> Any:
    """Two parts satin, three parts mirror."""
    material, nodes, link = new_material(bpy, "metal")
    surface = mixed(nodes, link, 0.4, glossy(nodes, 0.01, colour), glossy(nodes, 0.2, colour))
    link(surface, nodes["Material Output"].inputs["Surface"])
    return material


def render(bpy: Any, order: dict[str, Any]) -> None:
    scene = bpy.context.scene
    frame, cycles, aspect = scene.render, scene.cycles, order["pixel_aspect"]
    frame.engine = "CYCLES"
    frame.resolution_x, frame.resolution_y, frame.resolution_percentage = order["width"], order["height"], 100
    frame.pixel_aspect_x, frame.pixel_aspect_y = max(aspect, 1.0), max(1 / aspect, 1.0)  # neither may be below 1
    frame.threads_mode, frame.threads = "FIXED", 1  # pictures are rendered side by side
    frame.image_settings.file_format, frame.image_settings.color_mode = "PNG", "RGB"
    frame.use_file_extension = False
    frame.filepath = order["path"]
    scene.view_settings.view_transform = "Standard"
    cycles.device, cycles.samples, cycles.seed = "CPU", order["samples"], order["seed"] % 2**31
    cycles.use_adaptive_sampling = False
    cycles.use_denoising = order["denoise"]
    cycles.max_bounces, cycles.blur_glossy = 8, 2.0
    bpy.ops.render.render(write_still=True)


if __name__ == "__main__":
    main()
