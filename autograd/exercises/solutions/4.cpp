Variable gradient_penalty(const Variable& f, const Variable& x) {
  return sum(square(grad(f, {x}, {}, {.create_graph = true})[0]));
}
