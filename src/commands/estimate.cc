#include "commands/estimate.h"

#include <algorithm>
#include <ctime>
#include <optional>

#include "base/human.h"
#include "base/terminal_text.h"
#include "commands/dataset_info.h"
#include "commands/workers.h"
#include "filters/core/filter_rules.h"
#include "filters/core/filter_spec.h"
#include "filters/core/pipeline.h"

namespace codecfs::commands {
namespace {

constexpr size_t kMaxChunks = 64;
constexpr uint64_t kMaxSampled = uint64_t{64} << 20;

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Evenly spread stored chunks, decoded.
Result<std::vector<Buffer>> take_sample(const VariableOf& variable) {
  const uint64_t count = variable.facts->grid.count();
  std::vector<Buffer> sample;
  uint64_t bytes = 0;
  uint64_t next = 0;
  for (size_t i = 0; i < kMaxChunks && next < count && bytes < kMaxSampled; ++i) {
    const uint64_t from = std::max(next, count / kMaxChunks * i);
    CODECFS_ASSIGN(const std::vector<uint64_t> numbers, variable.source.stored_chunks(variable.object, from, 1));
    if (numbers.empty()) break;
    CODECFS_ASSIGN(Buffer chunk, variable.source.read_chunk(variable.object, numbers[0]));
    bytes += chunk.size();
    sample.push_back(std::move(chunk));
    next = numbers[0] + 1;
    if (interrupted) return fail(ECANCELED, "interrupted");
  }
  if (sample.empty()) return fail(ENOENT, "no chunk is stored");
  return sample;
}

Result<> measure(Candidate& candidate, const std::vector<FilterStage>& chain, const filters::ChunkShape& shape,
                 const std::vector<Buffer>& sample) {
  CODECFS_ASSIGN(const filters::Pipeline pipeline, filters::Pipeline::make(chain, shape));
  Mutex mutex;
  return in_parallel(sample.size(), [&](uint64_t i) -> Result<> {
    const double begun = thread_seconds();
    CODECFS_ASSIGN(filters::EncodedChunk encoded, pipeline.encode(sample[i].bytes()));
    const double encoded_at = thread_seconds();
    const uint64_t size = encoded.bytes.size();
    CODECFS_ASSIGN(const Buffer decoded, pipeline.decode(std::move(encoded.bytes), encoded.filter_mask));
    const double decoded_at = thread_seconds();
    if (!std::ranges::equal(decoded.bytes(), sample[i].bytes())) return fail(EINVAL, "loses information");
    const LockGuard lock(mutex);
    candidate.encoded_bytes += size;
    candidate.encode_seconds += encoded_at - begun;
    candidate.decode_seconds += decoded_at - encoded_at;
    return {};
  });
}

std::string speed_text(uint64_t bytes, double seconds) {
  return seconds <= 0 ? "" : fmt::format("{:.0f}", static_cast<double>(bytes) / seconds / 1e6);
}

}  // namespace

const std::vector<std::string>& usual_specs() {
  static const std::vector<std::string> specs{
      "none",   "shuffle|deflate,1", "shuffle|deflate,4", "shuffle|deflate,9", "shuffle|lz4",
      "zstd,3", "shuffle|zstd,1",    "shuffle|zstd,3",    "shuffle|zstd,9",    "shuffle|zstd,15"};
  return specs;
}

Result<Estimate> estimate(const VariableOf& variable, const std::string& path, const std::vector<std::string>& specs) {
  CODECFS_ASSIGN(const std::vector<Buffer> sample, take_sample(variable));
  Estimate result{.path = path, .chunks = sample.size(), .candidates = {}};
  for (const Buffer& chunk : sample) result.decoded_bytes += chunk.size();
  const filters::ChunkShape shape = filters::shape_of_chunk(*variable.facts);
  const auto add = [&](Candidate candidate, const std::vector<FilterStage>& chain) -> Result<> {
    const Result<> measured = measure(candidate, chain, shape, sample);
    if (!measured && measured.error().code == ECANCELED) return measured;
    if (!measured) candidate.unusable = measured.error().reason;
    result.candidates.push_back(std::move(candidate));
    return {};
  };
  CODECFS_TRY(
      add({.spec = filters_text(variable.facts->filters), .is_stored = true, .unusable = {}}, variable.facts->filters));
  for (const std::string& spec : specs) {
    if (spec == "none" && variable.facts->filters.empty()) continue;
    Result<std::vector<FilterStage>> chain = filters::parse_filter_spec(spec);
    if (!chain) return std::unexpected(chain.error());
    CODECFS_TRY(add({.spec = spec, .unusable = {}}, filters::arrange_chain(*std::move(chain))));
  }
  // How fast it must decode.
  const auto stored_decodes = [&]() -> double {
    for (const Candidate& candidate : result.candidates)
      if (candidate.unusable.empty() &&
          (variable.facts->filters.empty() ? candidate.spec == "shuffle|deflate,4" : candidate.is_stored))
        return candidate.decode_seconds;
    return 1e9;
  }();
  const auto is_fit = [&](const Candidate& candidate) {
    return candidate.unusable.empty() && candidate.decode_seconds <= 2 * stored_decodes;
  };
  uint64_t smallest = UINT64_MAX;
  for (const Candidate& candidate : result.candidates)
    if (is_fit(candidate)) smallest = std::min(smallest, candidate.encoded_bytes);
  Candidate* best = nullptr;
  for (Candidate& candidate : result.candidates) {
    if (!is_fit(candidate) || candidate.encoded_bytes > smallest + smallest / 20) continue;
    const auto seconds = [](const Candidate& of) { return of.encode_seconds + of.decode_seconds; };
    if (best == nullptr || seconds(candidate) < seconds(*best)) best = &candidate;
  }
  if (best != nullptr) best->is_recommended = true;
  return result;
}

std::string estimate_text(const Estimate& estimate) {
  std::string text = fmt::format("{}: a sample of {}, {}\n", printable(estimate.path),
                                 counted(estimate.chunks, "chunk"), human_bytes(estimate.decoded_bytes));
  text += fmt::format("  {:<34} {:>7} {:>12} {:>12}\n", "filters", "ratio", "encode MB/s", "decode MB/s");
  for (const Candidate& candidate : estimate.candidates) {
    std::string name = candidate.spec.size() > 34 ? candidate.spec.substr(0, 33) + "~" : candidate.spec;
    if (!candidate.unusable.empty()) {
      text += fmt::format("  {:<34} {}\n", name, candidate.unusable);
      continue;
    }
    text += fmt::format("  {:<34} {:>7.2f} {:>12} {:>12}{}{}\n", name,
                        static_cast<double>(estimate.decoded_bytes) /
                            static_cast<double>(std::max<uint64_t>(candidate.encoded_bytes, 1)),
                        speed_text(estimate.decoded_bytes, candidate.encode_seconds),
                        speed_text(estimate.decoded_bytes, candidate.decode_seconds),
                        candidate.is_stored ? "  as stored" : "", candidate.is_recommended ? "  recommended" : "");
  }
  return text;
}

}  // namespace codecfs::commands
