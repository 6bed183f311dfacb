// The stages of a filter pipeline, and whole pipelines: decoded bytes per second on one core.

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "filters/core/filter_spec.h"
#include "filters/core/pipeline.h"

namespace codecfs {
namespace {

constexpr size_t kChunk = size_t{1} << 20;  // bytes

enum Kind : int64_t { packed, smooth, blocky };

/// A chunk of 512 x 512 float32, as bench/data.py makes them.
std::vector<std::byte> make_chunk(Kind kind) {
  std::mt19937 engine(42);
  std::normal_distribution<float> noise(0, 0.5F);
  std::vector<float> values(kChunk / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    const float x = static_cast<float>(i % 512) / 512;
    const float y = static_cast<float>(i / 512) / 512;
    const float field = 280 + 20 * std::sin(3 * x) * std::cos(5 * y);
    if (kind == packed) values[i] = std::round((field + noise(engine)) * 100) / 100;
    if (kind == smooth) values[i] = field;
    if (kind == blocky) values[i] = std::floor(field / 5) * 5;
  }
  std::vector<std::byte> bytes(kChunk);
  std::memcpy(bytes.data(), values.data(), kChunk);
  return bytes;
}

filters::ChunkShape shape_of_chunks() {
  return {.bytes = kChunk,
          .type = {.kind = TypeKind::floating, .order = ByteOrder::little, .size = 4, .unit = {}, .members = {}},
          .shape = {512, 512, 512},
          .chunks = {1, 512, 512}};
}

/// Null, with a skipped benchmark, if this build does not have one of the filters.
std::optional<filters::Pipeline> make_pipeline(benchmark::State& state, const char* spec) {
  auto chain = filters::parse_filter_spec(spec);
  if (!chain) {
    state.SkipWithError(chain.error().reason.c_str());
    return std::nullopt;
  }
  auto pipeline = filters::Pipeline::make(*chain, shape_of_chunks());
  if (!pipeline) {
    state.SkipWithError(pipeline.error().reason.c_str());
    return std::nullopt;
  }
  return std::move(*pipeline);
}

/// The stored bytes are copied in each round, as decode() consumes them; that is a few percent for the fastest codecs.
void decode(benchmark::State& state, const char* spec) {
  const auto pipeline = make_pipeline(state, spec);
  if (!pipeline) return;
  const std::vector<std::byte> chunk = make_chunk(static_cast<Kind>(state.range(0)));
  auto encoded = pipeline->encode(chunk);
  if (!encoded) return state.SkipWithError(encoded.error().reason.c_str());
  for (auto _ : state) {
    auto stored = Buffer::copy_of(encoded->bytes.bytes());
    if (!stored) return state.SkipWithError(stored.error().reason.c_str());
    auto decoded = pipeline->decode(std::move(*stored), encoded->filter_mask);
    if (!decoded || decoded->size() != kChunk) return state.SkipWithError("the chunk does not come back");
    benchmark::DoNotOptimize(decoded->data());
  }
  auto last = pipeline->decode(std::move(encoded->bytes), encoded->filter_mask);
  if (!last || std::memcmp(last->data(), chunk.data(), kChunk) != 0) state.SkipWithError("other bytes come back");
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kChunk));
}

void encode(benchmark::State& state, const char* spec) {
  const auto pipeline = make_pipeline(state, spec);
  if (!pipeline) return;
  const std::vector<std::byte> chunk = make_chunk(static_cast<Kind>(state.range(0)));
  size_t stored = 0;
  for (auto _ : state) {
    auto encoded = pipeline->encode(chunk);
    if (!encoded) return state.SkipWithError(encoded.error().reason.c_str());
    stored = encoded->bytes.size();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kChunk));
  state.counters["stored_percent"] = 100.0 * static_cast<double>(stored) / kChunk;
}

// Each stage alone, and the usual pipelines. Blosc's parameters: lz4, level 5, byte shuffle.
#define FOR_ALL_KINDS ArgNames({"packed0_smooth1_blocky2"})->Arg(packed)->Arg(smooth)->Arg(blocky)
#define STAGE(name, spec)                               \
  BENCHMARK_CAPTURE(decode, name, spec)->FOR_ALL_KINDS; \
  BENCHMARK_CAPTURE(encode, name, spec)->FOR_ALL_KINDS
STAGE(deflate, "1,4");
STAGE(shuffle, "shuffle");
STAGE(fletcher32, "fletcher32");
STAGE(szip, "szip,32,16");
STAGE(bzip2, "bzip2,9");
STAGE(zstd, "zstd,3");
STAGE(lz4, "lz4");
STAGE(blosc, "blosc,0,0,0,0,5,1,1");
STAGE(shuffle_deflate, "shuffle|1,4");
STAGE(shuffle_zstd, "shuffle|zstd,3");
STAGE(shuffle_lz4, "shuffle|lz4");
STAGE(fletcher32_shuffle_deflate, "fletcher32|shuffle|1,4");

}  // namespace
}  // namespace codecfs
