#include "tensor/operands.h"

#include <array>
#include <optional>

namespace fovea {

namespace {

/// A pattern in its parts.
struct Pattern {
  bool is_optional = false;
  std::string_view type, dimensions;

  explicit Pattern(std::string_view text) {
    is_optional = text.starts_with('?');
    if (is_optional) text.remove_prefix(1);
    for (std::string_view known : {"f64", "bool", "index", "mask", "any"})
      if (text.starts_with(known)) type = known, text.remove_prefix(std::min(text.size(), known.size() + 1));
    dimensions = text;
  }

  bool has_type(DType found, DType first) const {
    if (type == "index") return found == DType::i32 || found == DType::i64;
    if (type == "mask") return found == DType::boolean || found == DType::u8;
    return type.empty() ? found == first : type == "any" || type == name(found);
  }

  /// "f32 [..., n]", where `own` is the type that operands without a type must have.
  std::string describe(std::string_view own) const {
    std::string text(type == "index" ? "i32 or i64" : type == "mask" ? "bool or u8" : type.empty() ? own : type);
    text += " [";
    for (char c : dimensions) text += c == ' ' ? ", " : std::string(1, c);
    return text + "]";
  }
};

/// The sizes that the letters of patterns stand for, and the leading dimensions that "..." stands for.
class Sizes {
 public:
  /// Whether a shape follows the dimensions of a pattern and all sizes found before. Remembers the sizes that are new.
  bool fit(const Shape& shape, std::string_view dimensions) {
    int d = shape.rank();
    while (!dimensions.empty() && dimensions != "..." && dimensions != "*") {
      const std::size_t space = dimensions.rfind(' ');
      const std::string_view last = dimensions.substr(space + 1);
      dimensions = dimensions.substr(0, space == dimensions.npos ? 0 : space);
      if (d == 0 || !fit(shape[--d], last)) return false;
    }
    if (dimensions.empty()) return d == 0;
    const Shape found(std::span(shape.begin(), static_cast<std::size_t>(d)));
    if (dimensions == "*" || (leading_ && *leading_ == found)) return true;
    const bool is_new = !leading_;
    leading_ = found;
    return is_new;
  }

 private:
  bool fit(std::int64_t size, std::string_view letter) {
    if (letter.size() > 1) {
      const std::int64_t times = letter[0] - '0';
      return size % times == 0 && fit(size / times, letter.substr(1));
    }
    std::int64_t& known = of_letter_[static_cast<unsigned char>(letter[0])];
    return known == size + 1 || (known == 0 && (known = size + 1));
  }

  std::array<std::int64_t, 128> of_letter_{};  ///< the size plus 1, so that 0 is a size not found yet
  std::optional<Shape> leading_;
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
