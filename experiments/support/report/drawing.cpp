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

void draw_colour_scale(Drawing& drawing, double x, double top, double height, double low, double high) {
  constexpr int steps = 24;
  constexpr double width = 10, shortest = 60, tallest = 160;
  height = std::clamp(height, shortest, tallest);
  double full = std::max(high, -low);
  drawing.raw("<g class=\"cells\">\n");
  for (int step = 0; step < steps; ++step) {
    double value = high - (high - low) * (step + 0.5) / steps;
    drawing.raw(fmt::format("<rect{} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill-opacity=\"{:.3g}\"/>\n",
                            value < 0 ? " class=\"cold\"" : "", px(x), px(top + step * height / steps), px(width),
                            px(height / steps + 0.2), std::clamp(std::abs(value) / full, 0.0, 1.0)));
  }
  drawing.raw("</g>\n");
  drawing.text(x + width + 5, top + 9, fmt::format("{:.3g}", high), "tick");
  drawing.text(x + width + 5, top + height, fmt::format("{:.3g}", low), "tick");
  if (low < 0 && high > 0) drawing.text(x + width + 5, top + height * high / (high - low) + 4, "0", "tick");
}

}  // namespace fovea
