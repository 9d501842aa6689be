"""Mosaics of pictures: reading pictures, drawing and joining them."""
