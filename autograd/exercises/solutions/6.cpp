/// Takes in a key with this score and value.
void add_key(Running& running, double score, const double* value) {
  if (score == -infinity) return;
  const double maximum = std::max(running.maximum, score);
  const double correction = std::exp(running.maximum - maximum), weight = std::exp(score - maximum);
  running.maximum = maximum;
  running.total = running.total * correction + weight;
  for (std::size_t d = 0; d < running.sum.size(); ++d) running.sum[d] = running.sum[d] * correction + weight * value[d];
}
