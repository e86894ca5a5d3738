DualNumber operator*(DualNumber a, DualNumber b) {
  return {a.value * b.value, a.derivative * b.value + a.value * b.derivative};
}
DualNumber operator/(DualNumber a, DualNumber b) {
  const double quotient = a.value / b.value;
  return {quotient, (a.derivative - quotient * b.derivative) / b.value};
}
DualNumber exp(DualNumber a) { return {std::exp(a.value), std::exp(a.value) * a.derivative}; }
