#include "tensor/operands.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace fovea {

namespace {

/// A pattern in its parts.
struct Pattern {
  bool is_optional = false;
  std::string_view type, dimensions;

  explicit Pattern(std::string_view text) {
    is_optional = text.starts_with('?');
    if (is_optional) text.remove_prefix(1);
    const std::size_t word = std::min(text.find(' '), text.size());
    const bool has_type = word > 2 && text[0] != '.';  // names of dimensions are shorter than types
    if (has_type) type = text.substr(0, word), text.remove_prefix(std::min(text.size(), word + 1));
    dimensions = text;
  }

  bool has_type(DType found, DType first) const {
    if (type.empty()) return found == first;
    if (type == "index") return found == DType::i32 || found == DType::i64;
    if (type == "mask") return found == DType::boolean || found == DType::u8;
    return type == "any" || type == name(found);
  }

  /// "f32 [..., n]", where `own` is the type that operands without a type must have.
  std::string describe(std::string_view own) const {
    std::string text(type == "index" ? "i32 or i64" : type == "mask" ? "bool or u8" : type.empty() ? own : type);
    text += " [";
    for (char c : dimensions) text += c == ' ' ? ", " : std::string(1, c);
    return text + "]";
  }
};

/// The sizes that the letters of patterns stand for, and the leading dimensions that "..." stands for. It refers to the
/// shapes that it was shown.
class Sizes {
 public:
  /// Whether a shape follows the dimensions of a pattern and all sizes found before. Remembers the sizes that are new.
  bool fit(const Shape& shape, std::string_view dimensions) {
    const std::int64_t *first = shape.begin(), *end = shape.end();
    std::size_t left = dimensions.size();  // characters of the pattern that have not been read; the last comes first
    while (left > 0 && dimensions[left - 1] != '.' && dimensions[left - 1] != '*') {
      const char letter = dimensions[--left];
      const bool is_multiple = left > 0 && dimensions[left - 1] != ' ';
      const std::int64_t times = is_multiple ? dimensions[--left] - '0' : 1;
      if (left > 0) --left;  // the space
      if (end == first || *--end % times != 0 || !fit(*end / times, letter)) return false;
    }
    if (left == 0) return end == first;
    if (dimensions[left - 1] == '*') return true;
    const std::span found(first, end);
    if (!has_leading_) leading_ = found, has_leading_ = true;
    return std::equal(leading_.begin(), leading_.end(), found.begin(), found.end());
  }

 private:
  bool fit(std::int64_t size, char letter) {
    for (std::size_t k = 0; k < count_; ++k)
      if (letters_[k] == letter) return sizes_[k] == size;
    letters_[count_] = letter;
    sizes_[count_++] = size;
    return true;
  }

  std::array<char, Shape::max_rank> letters_;  ///< the first `count_` have a size
  std::array<std::int64_t, Shape::max_rank> sizes_;
  std::size_t count_ = 0;
  std::span<const std::int64_t> leading_;
  bool has_leading_ = false;
};

std::string place(const Tensor& x) { return x.defined() ? fmt::format("{} on {}", x, name(x.device())) : x.describe(); }

[[noreturn]] void refuse(const char* what, const Operand& operand, const Operand& first) {
  const bool is_first = &operand == &first;
  const Pattern pattern(operand.pattern);
  const std::string_view own = is_first || !first.tensor.defined() ? "f32 or f64" : name(first.tensor.dtype());
  const std::string beside = is_first ? ""
                                      : fmt::format(", beside {} {}, here {}", first.role,
                                                    Pattern(first.pattern).describe("f32 or f64"), place(first.tensor));
  fail("{}: {}, {}, must be {}{}", what, operand.role, place(operand.tensor), pattern.describe(own), beside);
}

}  // namespace

void check(const char* what, std::initializer_list<Operand> operands) {
  const Operand& first = *operands.begin();
  Sizes sizes;
  for (const Operand& one : operands) {
    const Tensor& x = one.tensor;
    const Pattern pattern(one.pattern);
    if (!x.defined() && pattern.is_optional) continue;
    if (x.defined() && pattern.type == "index") visit_index(what, x.dtype(), [](auto) {});
    if (x.defined() && &one == &first && pattern.type.empty()) visit_real(what, x.dtype(), [](auto) {});
    if (!x.defined() || x.device() != first.tensor.device() || !pattern.has_type(x.dtype(), first.tensor.dtype()) ||
        !sizes.fit(x.shape(), pattern.dimensions)) [[unlikely]]
      refuse(what, one, first);
  }
}

}  // namespace fovea
