Variable summed_to(const Variable& g, const Shape& shape) {
  const int added = g.rank() - shape.rank();
  std::vector<int> repeated;
  for (int d = 0; d < g.rank(); ++d)
    if (d < added || (shape[d - added] == 1 && g.size(d) != 1)) repeated.push_back(d);
  return repeated.empty() ? g : reshape(sum(g, repeated), shape);  // sum(g, {}) would sum over all dimensions
}
