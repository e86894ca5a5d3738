#include "experiments/support/report/drawing.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "experiments/support/program/terminal.h"
#include "experiments/support/report/html.h"

namespace fovea {

std::string px(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

double text_pixels(const std::string& text, double size) {
  // Widths in DejaVu Sans, the widest font of the style: most letters have less than 0.65 of its size, these have more.
  constexpr double per_letter = 0.65, wide_letter = 1.0, capital = 0.79;
  double letters = per_letter * double(display_width(text));
  for (char c : text) {
    if (std::string_view("mwMW@%").find(c) != std::string_view::npos)
      letters += wide_letter - per_letter;
    else if (c >= 'A' && c <= 'Z')
      letters += capital - per_letter;
  }
  return size * letters;
}

double longest_label(const std::vector<std::string>& tokens, std::size_t longest, double size) {
  double pixels = 0;
  for (const std::string& token : tokens)
    pixels = std::max(pixels, text_pixels(shortened(printable(token), longest), size));
  return pixels;
}

void Drawing::line(double x1, double y1, double x2, double y2, const char* style) {
  body_ += fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", style, px(x1), px(y1), px(x2),
                       px(y2));
}

void Drawing::text(double x, double y, const std::string& text, const char* style, const char* anchor, double degrees) {
  std::string turn = degrees != 0 ? fmt::format(" transform=\"rotate({} {} {})\"", px(degrees), px(x), px(y)) : "";
  body_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", style, px(x), px(y),
                       anchor, turn, escape_html(text));
}

std::string Drawing::element(double width, double height, const std::string& description) const {
  return fmt::format(
      "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" role=\"img\" aria-label=\"{2}\">\n{3}</svg>",
      px(width), px(height), escape_html(description), body_);
}

}  // namespace fovea
