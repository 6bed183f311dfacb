// Encodes or decodes one chunk by our filters, for tests that compare with other implementations.
//
//   recode encode|decode --spec SPEC | --zarray FILE|JSON  [--dtype DTYPE] [--shape N,N] [--chunks N,N]
//          [--mask N] [--optional]
//
// The chunk goes from standard input to standard output. `encode` prints the filter mask on standard error, `decode`
// takes it with --mask. --zarray: a .zarray, or what one tells of codecs, {"filters": [...], "compressor": {...}};
// where it has dtype, shape and chunks these options may be left out. --dtype: numpy's name, or JSON for structured
// types.
// --optional: a filter of SPEC that fails is left out, as HDF5 does. A failure is told on standard error; then the exit
// status is 1.

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "filters/core/codec_json.h"
#include "filters/core/filter_spec.h"
#include "filters/core/pipeline.h"
#include "model/json.h"

namespace codecfs {
namespace {

using Options = std::map<std::string, std::string, std::less<>>;

Result<Options> read_options(int count, char** arguments) {
  Options options;
  if (count < 2) return fail(EINVAL, "encode or decode?");
  options["direction"] = arguments[1];
  for (int i = 2; i < count; ++i) {
    const std::string_view name = arguments[i];
    if (name == "--optional") {
      options["optional"] = "1";
    } else if (name.starts_with("--") && i + 1 < count) {
      options[std::string(name.substr(2))] = arguments[++i];
    } else {
      return fail(EINVAL, "what is {}?", name);
    }
  }
  return options;
}

Result<uint64_t> read_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return fail(EINVAL, "'{}' is no number", text);
  return number;
}

/// "4,50"; nothing is the shape of a scalar.
Result<std::vector<uint64_t>> read_lengths(std::string_view text) {
  std::vector<uint64_t> lengths;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    CODECFS_ASSIGN(const uint64_t length, read_number(text.substr(0, comma)));
    lengths.push_back(length);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
  return lengths;
}

struct Job {
  bool encode = false;
  uint32_t mask = 0;
  filters::Pipeline pipeline;
};

Result<Job> read_job(const Options& options) {
  const auto option = [&](const char* name) -> std::string {
    const auto found = options.find(name);
    return found == options.end() ? "" : found->second;
  };
  Json zarray = Json::object();
  if (options.contains("zarray")) {
    std::string text = option("zarray");
    if (!text.starts_with('{')) {
      std::ifstream file(text);
      if (!file) return fail(ENOENT, "cannot open {}", text);
      text.assign(std::istreambuf_iterator<char>(file), {});
    }
    CODECFS_ASSIGN(zarray, parse_json(text));
    if (!zarray.is_object()) return fail(EINVAL, "--zarray is no object");
  }
  if (options.contains("dtype")) {
    const std::string dtype = option("dtype");
    zarray["dtype"] = dtype;
    if (dtype.starts_with('[')) {
      CODECFS_ASSIGN(zarray["dtype"], parse_json(dtype));
    }
  }
  for (const char* name : {"shape", "chunks"}) {
    if (!options.contains(name)) continue;
    CODECFS_ASSIGN(const std::vector<uint64_t> lengths, read_lengths(option(name)));
    zarray[name] = lengths;
  }
  filters::ChunkShape chunk;
  CODECFS_ASSIGN(chunk.type, parse_dtype(zarray["dtype"]));
  chunk.shape = zarray.value("shape", std::vector<uint64_t>{});
  chunk.chunks = zarray.value("chunks", std::vector<uint64_t>{});
  chunk.bytes = chunk.type.size;
  for (const uint64_t length : chunk.chunks) *chunk.bytes *= length;

  std::vector<FilterStage> chain;
  if (options.contains("spec")) {
    CODECFS_ASSIGN(chain, filters::parse_filter_spec(option("spec")));
    for (FilterStage& stage : chain) stage.optional = options.contains("optional");
  } else {
    CODECFS_ASSIGN(chain, filters::parse_zarr_codecs(zarray.value("compressor", Json()),
                                                     zarray.value("filters", Json()), chunk.type.size));
  }

  Job job;
  job.encode = option("direction") == "encode";
  if (!job.encode && option("direction") != "decode") return fail(EINVAL, "encode or decode?");
  if (options.contains("mask")) {
    CODECFS_ASSIGN(const uint64_t mask, read_number(option("mask")));
    job.mask = static_cast<uint32_t>(mask);
  }
  CODECFS_ASSIGN(job.pipeline, filters::Pipeline::make(chain, chunk));
  return job;
}

Result<Buffer> read_input() {
  std::vector<std::byte> bytes;
  std::byte piece[65536];
  for (;;) {
    const size_t got = std::fread(piece, 1, sizeof piece, stdin);
    if (got == 0) break;
    bytes.insert(bytes.end(), piece, piece + got);
  }
  if (std::ferror(stdin) != 0) return fail(EIO, "cannot read the input");
  return Buffer::copy_of(bytes);
}

Result<> run(const Job& job) {
  CODECFS_ASSIGN(Buffer chunk, read_input());
  if (job.encode) {
    CODECFS_ASSIGN(filters::EncodedChunk encoded, job.pipeline.encode(chunk.bytes()));
    fmt::print(stderr, "{}\n", encoded.filter_mask);
    chunk = std::move(encoded.bytes);
  } else {
    CODECFS_ASSIGN(chunk, job.pipeline.decode(std::move(chunk), job.mask));
  }
  if (std::fwrite(chunk.data(), 1, chunk.size(), stdout) != chunk.size() || std::fflush(stdout) != 0)
    return fail(EIO, "cannot write the output");
  return {};
}

Result<> recode(int count, char** arguments) try {
  CODECFS_ASSIGN(const Options options, read_options(count, arguments));
  CODECFS_ASSIGN(const Job job, read_job(options));
  return run(job);
} catch (const std::exception& e) {
  return fail(EINVAL, "{}", e.what());
}

}  // namespace
}  // namespace codecfs

int main(int count, char** arguments) {
  const auto result = codecfs::recode(count, arguments);
  if (result) return EXIT_SUCCESS;
  fmt::print(stderr, "recode: {}\n", result.error().reason);
  return EXIT_FAILURE;
}
