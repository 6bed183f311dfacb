// Encodes or decodes chunks by our filters, for tests that compare with other implementations. One process serves many
// requests: starting one for each chunk would take most of the tests' time.
//
// A request is a line of words that tabs separate, and the bytes of a chunk; the first word is their number:
//
//   SIZE encode|decode --spec SPEC | --zarray JSON  [--dtype DTYPE] [--shape N,N] [--chunks N,N] [--mask N]
//   [--optional]
//
// --zarray: a .zarray, or its members that concern codecs, {"filters": [...], "compressor": {...}}; it may have dtype,
// shape and chunks instead of these options. --dtype: numpy's name, or JSON for structured types. --optional: a filter
// of SPEC that fails is left out, as HDF5 does.
//
// The answer is the line "ok SIZE MASK" and the bytes of the result, where MASK is the filter mask of an encoded chunk;
// or the line "error REASON".

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <span>
#include <sstream>
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

Result<Options> read_options(std::span<const std::string> words) {
  Options options;
  if (words.empty()) return fail(EINVAL, "encode or decode?");
  options["direction"] = words[0];
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string_view name = words[i];
    if (name == "--optional") {
      options["optional"] = std::string("1");  // GCC 12 warns of a literal here (bug 105651)
    } else if (name.starts_with("--") && i + 1 < words.size()) {
      options[std::string(name.substr(2))] = words[++i];
    } else {
      return fail(EINVAL, "unknown option {}", name);
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
    CODECFS_ASSIGN(zarray, parse_json(option("zarray")));
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

Result<filters::EncodedChunk> run(std::span<const std::string> words, Bytes bytes) try {
  CODECFS_ASSIGN(const Options options, read_options(words));
  CODECFS_ASSIGN(const Job job, read_job(options));
  if (job.encode) return job.pipeline.encode(bytes);
  CODECFS_ASSIGN(Buffer chunk, Buffer::copy_of(bytes));
  filters::EncodedChunk decoded;
  CODECFS_ASSIGN(decoded.bytes, job.pipeline.decode(std::move(chunk), job.mask));
  return decoded;
} catch (const std::exception& e) {
  return fail(EINVAL, "{}", e.what());
}

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; std::getline(stream, word, '\t');) words.push_back(word);
  return words;
}

/// Serves requests until the input ends.
Result<> serve() {
  for (std::string line; std::getline(std::cin, line);) {
    const std::vector<std::string> words = split(line);
    CODECFS_ASSIGN(const uint64_t size, read_number(words.empty() ? "" : words[0]));
    std::vector<char> bytes(size);
    if (!std::cin.read(bytes.data(), static_cast<std::streamsize>(size))) return fail(EIO, "the input is too short");
    const auto result = run(std::span(words).subspan(1), std::as_bytes(std::span(bytes)));
    if (result) {
      std::cout << "ok " << result->bytes.size() << ' ' << result->filter_mask << '\n';
      std::cout.write(reinterpret_cast<const char*>(result->bytes.data()),
                      static_cast<std::streamsize>(result->bytes.size()));
    } else {
      std::cout << "error " << result.error().reason << '\n';
    }
    if (!std::cout.flush()) return fail(EIO, "cannot write the output");
  }
  return {};
}

}  // namespace
}  // namespace codecfs

int main() {
  std::ios::sync_with_stdio(false);
  const auto result = codecfs::serve();
  if (result) return EXIT_SUCCESS;
  fmt::print(stderr, "recode: {}\n", result.error().reason);
  return EXIT_FAILURE;
}
