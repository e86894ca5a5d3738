#include "experiments/support/report/png.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include <zlib.h>

#include "tensor/error.h"

namespace fovea {

namespace {

using Colour = std::array<double, 3>;
constexpr Colour paper{255, 255, 255}, hot{0x0b, 0x5c, 0xad}, cold{0xc2, 0x45, 0x2d}, missing{0xdf, 0xe3, 0xe8};

std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xff);
  return bytes;
}

/// A chunk of the file format: length, type, data and the checksum of both.
std::string chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const auto checksum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body + big_endian(static_cast<std::uint32_t>(checksum));
}

std::string compressed(const std::string& data) {
  uLongf size = compressBound(static_cast<uLong>(data.size()));
  std::string result(size, '\0');
  require(compress(reinterpret_cast<Bytef*>(result.data()), &size, reinterpret_cast<const Bytef*>(data.data()),
                   static_cast<uLong>(data.size())) == Z_OK,
          "png: the picture could not be compressed");
  result.resize(size);
  return result;
}

/// A value as a colour, where `full` has the strongest one.
Colour colour_of(double value, double full) {
  if (!std::isfinite(value)) return missing;
  const double strength = std::clamp(std::abs(value) / full, 0.0, 1.0);
  const Colour& end = value < 0 ? cold : hot;
  Colour mixed;
  for (std::size_t c = 0; c < 3; ++c) mixed[c] = paper[c] + strength * (end[c] - paper[c]);
  return mixed;
}

std::string png_file(const std::string& pixels, std::size_t width, std::size_t height, const std::string& comment) {
  std::string lines;  // each with a 0 before it: no filter
  for (std::size_t y = 0; y < height; ++y) lines += '\0' + pixels.substr(y * width * 3, width * 3);
  const std::string header = big_endian(static_cast<std::uint32_t>(width)) +
                             big_endian(static_cast<std::uint32_t>(height)) + std::string{8, 2, 0, 0, 0};
  const std::string text = comment.empty() ? "" : chunk("iTXt", std::string("Comment\0\0\0\0\0", 12) + comment);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + text + chunk("IDAT", compressed(lines)) + chunk("IEND", "");
}

}  // namespace

std::string png(const HeadMaps& maps, int cell, const std::string& comment) {
  const auto side = static_cast<std::size_t>(cell);
  const std::size_t rows = maps.queries.size(), columns = maps.keys.size(), panel = (columns + 1) * side;
  const std::size_t width = std::max<std::size_t>(maps.heads.size() * panel, side) - side, height = rows * side;
  double full = 0;
  for (const HeadMaps::Head& head : maps.heads)
    for (double value : head.values)
      if (std::isfinite(value)) full = std::max(full, std::abs(value));
  std::string pixels(width * height * 3, '\xff');
  for (std::size_t h = 0; h < maps.heads.size(); ++h) {
    require(maps.heads[h].values.size() == rows * columns, "maps '{}': {} has {} values for {} queries and {} keys",
            maps.title, maps.heads[h].name, maps.heads[h].values.size(), rows, columns);
    for (std::size_t y = 0; y < height; ++y)
      for (std::size_t x = 0; x < columns * side; ++x) {
        const Colour colour = colour_of(maps.heads[h].values[y / side * columns + x / side], full > 0 ? full : 1);
        for (std::size_t c = 0; c < 3; ++c)
          pixels[(y * width + h * panel + x) * 3 + c] = static_cast<char>(std::lround(colour[c]));
      }
  }
  return png_file(pixels, width, height, comment);
}

}  // namespace fovea
