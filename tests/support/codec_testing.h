#pragma once
// Common code of the filter tests: pipelines from text, bytes from hex, damaged data.

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "filters/core/codec_json.h"
#include "filters/core/filter.h"
#include "filters/core/pipeline.h"
#include "model/json.h"

namespace codecfs::filters {

using ByteVector = std::vector<std::byte>;

inline ByteVector from_hex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  ByteVector bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(digit(hex[i]) * 16 + digit(hex[i + 1])));
  return bytes;
}

inline ByteVector random_bytes(size_t count, uint32_t seed = 1) {
  std::mt19937 random(seed);
  ByteVector bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

inline void append(ByteVector& bytes, Bytes more) { bytes.insert(bytes.end(), more.begin(), more.end()); }

inline ByteVector to_vector(const Buffer& buffer) { return {buffer.bytes().begin(), buffer.bytes().end()}; }

inline FilterStage stage(uint32_t id, std::vector<uint32_t> parameters = {}) {
  return {.id = id, .parameters = std::move(parameters), .codec = {}, .name = {}, .optional = false};
}

inline std::vector<FilterStage> zarr_chain(std::string_view filters, std::string_view compressor = "null",
                                           uint64_t item_size = 1) {
  auto chain = parse_zarr_codecs(*parse_json(compressor), *parse_json(filters), item_size);
  if (!chain) throw std::runtime_error(chain.error().reason);
  return *std::move(chain);
}

inline DataType type_of(const char* dtype) { return *parse_dtype(Json(dtype)); }

inline ChunkShape chunk_of(std::optional<uint64_t> bytes, const char* dtype = "|u1") {
  return {.bytes = bytes, .type = type_of(dtype)};
}

/// Decodes one chunk through the pipeline `chain`.
inline Result<ByteVector> decode(const std::vector<FilterStage>& chain, const ChunkShape& chunk, Bytes stored,
                                 uint32_t mask = 0) {
  CODECFS_ASSIGN(const Pipeline pipeline, Pipeline::make(chain, chunk));
  CODECFS_ASSIGN(Buffer buffer, Buffer::copy_of(stored));
  CODECFS_ASSIGN(const Buffer decoded, pipeline.decode(std::move(buffer), mask));
  return to_vector(decoded);
}

/// The reason of an error, for comparisons; "(no error)" on success.
template <class T>
std::string reason(const Result<T>& result) {
  return result ? "(no error)" : result.error().reason;
}

}  // namespace codecfs::filters
