// Kernel requests on a mounted HDF5 file: chunk lookup, attributes, read, listing.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "fs/filesystem.h"
#include "model/json.h"

namespace codecfs {
namespace {

constexpr uint64_t kChunks = 10'000;  // of 256 int32

/// A file of one variable with kChunks deflated chunks, which is removed at exit.
class SampleFile {
 public:
  SampleFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "codecfs-micro-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) return;
    folder_ = pattern;
    if (const Result<> made = make(); !made) error_ = made.error().reason;
  }
  SampleFile(const SampleFile&) = delete;
  SampleFile& operator=(const SampleFile&) = delete;
  ~SampleFile() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  [[nodiscard]] std::string path() const { return folder_ / "v.h5"; }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  Result<> make() {
    CODECFS_TRY(create_source(path(), "hdf5"));
    CODECFS_ASSIGN(const std::unique_ptr<Source> source, open_source(path(), true));
    Variable variable;
    variable.type = {.kind = TypeKind::signed_int, .order = ByteOrder::little, .size = 4, .unit = {}, .members = {}};
    CODECFS_ASSIGN(variable.grid, ChunkGrid::make({256 * kChunks}, {256}));
    variable.max_shape = {256 * kChunks};
    variable.chunk_bytes = 1024;
    variable.fill_value = Json(0);
    variable.fill = std::vector<std::byte>(4);
    FilterStage deflate;
    deflate.id = 1;
    deflate.parameters = {4};
    variable.filters = {deflate};
    CODECFS_ASSIGN(const Entry entry, source->make_variable(source->root().object, "v", variable));
    std::vector<int32_t> values(256);
    for (uint64_t number = 0; number < kChunks; ++number) {
      std::ranges::fill(values, static_cast<int32_t>(number));
      CODECFS_TRY(source->write_chunk(entry.object, number, std::as_bytes(std::span(values))));
    }
    CODECFS_TRY(source->commit());
    return source->finish();
  }

  std::filesystem::path folder_;
  std::string error_ = "no temporary directory";
};

/// A filesystem over the sample, and the directory of its variable. Null if the benchmark must be skipped.
struct Sample {
  std::unique_ptr<fs::Filesystem> filesystem;
  fs::Ino directory = 0;

  explicit Sample(benchmark::State& state) {
    static const SampleFile file;
    auto source = open_source(file.path());
    if (!source) {
      state.SkipWithError((file.error() + ": " + source.error().reason).c_str());
      return;
    }
    filesystem = std::make_unique<fs::Filesystem>(std::move(*source), fs::FilesystemOptions{});
    const auto status = filesystem->names().lookup(fs::kRootIno, "v");
    if (!status) {
      state.SkipWithError(status.error().reason.c_str());
      filesystem.reset();
      return;
    }
    directory = status->st_ino;
  }
};

std::vector<std::string> shuffled_names() {
  std::vector<std::string> names;
  for (uint64_t number = 0; number < kChunks; ++number) names.push_back(std::to_string(number));
  std::shuffle(names.begin(), names.end(), std::mt19937(1));  // NOLINT(cert-msc51-cpp): the same in every run
  return names;
}

void open_and_find(benchmark::State& state) {
  {
    const Sample first(state);
  }  // creates the file
  for (auto _ : state) {
    const Sample sample(state);
    if (!sample.filesystem) return;
  }
}
BENCHMARK(open_and_find)->Unit(benchmark::kMicrosecond);

void lookup_chunk(benchmark::State& state) {
  const Sample sample(state);
  if (!sample.filesystem) return;
  const std::vector<std::string> names = shuffled_names();
  size_t next = 0;
  for (auto _ : state) {
    const auto status = sample.filesystem->names().lookup(sample.directory, names[next++ % kChunks]);
    if (!status || status->st_size != 1024) return state.SkipWithError("a chunk is not found");
  }
}
BENCHMARK(lookup_chunk);

void lookup_absent_name(benchmark::State& state) {
  const Sample sample(state);
  if (!sample.filesystem) return;
  for (auto _ : state) {
    if (sample.filesystem->names().lookup(sample.directory, "no-such-name"))
      return state.SkipWithError("a name too many");
  }
}
BENCHMARK(lookup_absent_name);

void attributes_of_chunk(benchmark::State& state) {
  const Sample sample(state);
  if (!sample.filesystem) return;
  const auto status = sample.filesystem->names().lookup(sample.directory, "77");
  if (!status) return state.SkipWithError(status.error().reason.c_str());
  for (auto _ : state) benchmark::DoNotOptimize(sample.filesystem->names().attributes(status->st_ino));
}
BENCHMARK(attributes_of_chunk);

/// Lookup, open, decode and read of a chunk of 1 KiB: the overhead besides the data.
void read_small_chunk(benchmark::State& state) {
  const Sample sample(state);
  if (!sample.filesystem) return;
  const std::vector<std::string> names = shuffled_names();
  size_t next = 0;
  for (auto _ : state) {
    const auto status = sample.filesystem->names().lookup(sample.directory, names[next++ % kChunks]);
    if (!status) return state.SkipWithError(status.error().reason.c_str());
    const auto file = sample.filesystem->files().open(status->st_ino, false, false);
    if (!file) return state.SkipWithError(file.error().reason.c_str());
    const auto slice = (*file)->read(0, 1024);
    if (!slice || slice->bytes.size() != 1024) return state.SkipWithError("a chunk is not read");
    (*file)->close();
  }
}
BENCHMARK(read_small_chunk)->Unit(benchmark::kMicrosecond);

void list_ten_thousand_chunks(benchmark::State& state) {
  const Sample sample(state);
  if (!sample.filesystem) return;
  for (auto _ : state) {
    const auto directory = sample.filesystem->listing().open(sample.directory);
    if (!directory) return state.SkipWithError(directory.error().reason.c_str());
    uint64_t names = 0;
    const auto told = sample.filesystem->listing().read(**directory, 0, [&names](const fs::DirectoryItem& item) {
      benchmark::DoNotOptimize(item.name.data());
      ++names;
      return true;
    });
    if (!told || names < kChunks) return state.SkipWithError("names are missing");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kChunks));
}
BENCHMARK(list_ten_thousand_chunks)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace codecfs
