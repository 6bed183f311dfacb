#include "commands/overview/png.h"

#include <libdeflate.h>

#include <memory>
#include <string_view>

#include "base/buffer.h"
#include "base/endian.h"

namespace codecfs::commands::overview {
namespace {

constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
constexpr uint8_t kTruecolour = 2;
constexpr uint8_t kIndexed = 3;
constexpr int kLevel = 9;

void append_number(std::string& text, uint32_t number) {
  std::byte bytes[sizeof number];
  store_be(bytes, number);
  text.append(reinterpret_cast<const char*>(bytes), sizeof bytes);
}

/// Length, type, data, CRC of type and data.
void append_chunk(std::string& png, std::string_view type, std::string_view data) {
  append_number(png, static_cast<uint32_t>(data.size()));
  const size_t begin = png.size();
  png += type;
  png += data;
  append_number(png, libdeflate_crc32(0, png.data() + begin, png.size() - begin));
}

std::string compressed(std::string_view data) {
  const std::unique_ptr<libdeflate_compressor, decltype(&libdeflate_free_compressor)> compressor(
      libdeflate_alloc_compressor(kLevel), &libdeflate_free_compressor);
  if (compressor == nullptr) throw std::bad_alloc();
  std::string stream(libdeflate_zlib_compress_bound(compressor.get(), data.size()), '\0');
  stream.resize(libdeflate_zlib_compress(compressor.get(), data.data(), data.size(), stream.data(), stream.size()));
  return stream;
}

std::string make_png(size_t width, size_t height, uint8_t colour_type, std::string_view before_data,
                     std::span<const uint8_t> pixels) {
  std::string png(kSignature);
  std::string header;
  append_number(header, static_cast<uint32_t>(width));
  append_number(header, static_cast<uint32_t>(height));
  header += {8, static_cast<char>(colour_type), 0, 0, 0};  // bits; deflate, filters by row, not interlaced
  append_chunk(png, "IHDR", header);
  png += before_data;
  std::string rows;
  const size_t row = height == 0 ? 0 : pixels.size() / height;
  for (size_t y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(pixels.data()) + y * row, row);
  }
  append_chunk(png, "IDAT", compressed(rows));
  append_chunk(png, "IEND", "");
  return png;
}

}  // namespace

std::string palette_png(size_t width, size_t height, std::span<const Colour> palette,
                        std::span<const uint8_t> indices) {
  std::string colours;
  for (const Colour& colour : palette) colours.append(reinterpret_cast<const char*>(colour.data()), colour.size());
  std::string chunks;
  append_chunk(chunks, "PLTE", colours);
  std::string alpha(palette.size(), '\xff');
  alpha.back() = '\0';
  append_chunk(chunks, "tRNS", alpha);
  return make_png(width, height, kIndexed, chunks, indices);
}

std::string colour_png(size_t width, size_t height, std::span<const uint8_t> pixels) {
  return make_png(width, height, kTruecolour, "", pixels);
}

}  // namespace codecfs::commands::overview
