// Texts of filter pipelines: specs, rules and codec JSON, parsed and printed.

#include <benchmark/benchmark.h>

#include <string>

#include "filters/core/codec_json.h"
#include "filters/core/filter_rules.h"
#include "filters/core/filter_spec.h"
#include "model/json.h"

namespace codecfs {
namespace {

void parse_spec(benchmark::State& state, const char* text) {
  for (auto _ : state) {
    auto chain = filters::parse_filter_spec(text);
    if (!chain) return state.SkipWithError(chain.error().reason.c_str());
    benchmark::DoNotOptimize(chain->data());
  }
}
BENCHMARK_CAPTURE(parse_spec, numbers, "2,4|1,5");
BENCHMARK_CAPTURE(parse_spec, names, "shuffle|zstd,3");
BENCHMARK_CAPTURE(parse_spec, all_kinds_of_constants,
                  "32001, 0, 0, 0, 0, 5, 1, 1 | 40000, -17b, 23ub, -25S, 27US, 77, 93U, 789f, 12345678.12345678d, "
                  "-9223372036854775807L");

void print_spec(benchmark::State& state) {
  const auto chain = filters::parse_filter_spec("shuffle|zstd,3");
  if (!chain) return state.SkipWithError(chain.error().reason.c_str());
  for (auto _ : state) benchmark::DoNotOptimize(filters::print_filter_spec(*chain));
}
BENCHMARK(print_spec);

void resolve_rules(benchmark::State& state) {
  filters::FilterRules rules;
  for (int64_t i = 0; i < state.range(0); ++i) {
    if (const auto added = rules.add("/group/v" + std::to_string(i) + ",shuffle|zstd,3"); !added)
      return state.SkipWithError(added.error().reason.c_str());
  }
  const std::string last = "/group/v" + std::to_string(state.range(0) - 1);
  for (auto _ : state) {
    if (!rules.resolve(last)) return state.SkipWithError("the rule is not found");
  }
}
BENCHMARK(resolve_rules)->Arg(1)->Arg(100);

void parse_codec_json(benchmark::State& state) {
  const std::string compressor = R"({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0})";
  const std::string before = R"([{"id": "shuffle", "elementsize": 4}])";
  for (auto _ : state) {
    auto chain = filters::parse_zarr_codecs(Json::parse(compressor), Json::parse(before), 4);
    if (!chain) return state.SkipWithError(chain.error().reason.c_str());
    benchmark::DoNotOptimize(chain->data());
  }
}
BENCHMARK(parse_codec_json);

void print_codec_json(benchmark::State& state) {
  const auto chain = filters::parse_filter_spec("shuffle|zstd,3");
  if (!chain) return state.SkipWithError(chain.error().reason.c_str());
  for (auto _ : state) benchmark::DoNotOptimize(filters::print_codecs(*chain).dump());
}
BENCHMARK(print_codec_json);

}  // namespace
}  // namespace codecfs
