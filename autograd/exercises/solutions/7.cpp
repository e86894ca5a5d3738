template <class T>
FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T> at, T rate, T scale) const {
  return z - rate * log(T(1) + scale * abs(at.key - at.query));
}
