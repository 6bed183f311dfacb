// A filter pipeline and any bytes as a stored chunk: "SPEC, zero byte, filter mask (1 byte), chunk". The chunk decodes
// to exactly the declared size, or is refused with a reason; decoded data can be encoded if the pipeline can encode.

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "filters/core/filter_spec.h"
#include "filters/core/pipeline.h"
#include "model/json.h"
#include "require.h"

namespace {

using namespace codecfs;

constexpr uint64_t kElements = 4096;
constexpr uint64_t kMaxBytes = uint64_t{1} << 20;

void check_error(const Error& error) { require(error.code != 0 && !error.reason.empty(), "an error has a reason"); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\0');
  if (end == std::string_view::npos || end + 2 > size) return 0;
  const auto chain = filters::parse_filter_spec(text.substr(0, end));
  if (!chain) return 0;
  const uint32_t mask = data[end + 1];
  const std::string_view stored = text.substr(end + 2);
  DataType type = *parse_dtype("<f4");
  const filters::ChunkShape shape{
      .bytes = kElements * type.size, .type = type, .shape = {kElements * 4}, .chunks = {kElements}};
  const auto pipeline = filters::Pipeline::make(*chain, shape);
  if (!pipeline) {
    check_error(pipeline.error());
    return 0;
  }
  auto bytes = Buffer::copy_of(std::as_bytes(std::span(stored)));
  if (!bytes) return 0;
  const auto decoded = pipeline->decode(*std::move(bytes), mask);
  if (!decoded) {
    check_error(decoded.error());
    return 0;
  }
  require(decoded->size() == *shape.bytes, "a chunk has the size that it is to have");
  const auto encoded = pipeline->encode(decoded->bytes());
  if (!encoded) {
    check_error(encoded.error());
    return 0;
  }
  require(encoded->bytes.size() <= kMaxBytes, "a chunk does not grow without bound");
  return 0;
}
