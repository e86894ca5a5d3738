Gradients row_dot_gradients(const Variable& g, const Variable& a, const Variable& b) {
  return {unsqueeze(g, 1) * b, unsqueeze(g, 1) * a};
}
