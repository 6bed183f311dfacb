#include "commands/parquet_references.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/file_io.h"
#include "base/file_name.h"
#include "commands/parquet_writer.h"
#include "commands/partial.h"
#include "commands/workers.h"

namespace codecfs::commands {
namespace {

constexpr uint64_t kRecord = 100'000;  // rows of a file, kerchunk's default

struct CloseFile {
  void operator()(std::FILE* file) const { (void)std::fclose(file); }
};
using OutputFile = std::unique_ptr<std::FILE, CloseFile>;

Result<OutputFile> create_file(const std::string& path) {
  OutputFile file(std::fopen(path.c_str(), "wxe"));
  if (!file) return fail_errno(errno, "{}", path);
  return file;
}

Result<> put(const OutputFile& file, const std::string& path, std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file.get()) != bytes.size()) return fail_errno(errno, "{}", path);
  return {};
}

Result<> close_file(OutputFile file, const std::string& path) {
  if (std::fclose(file.release()) != 0) return fail_errno(errno, "{}", path);
  return {};
}

class ParquetReferences final : public ReferenceSink {
 public:
  ParquetReferences(std::string directory, std::string partial, std::string url)
      : directory_(std::move(directory)), partial_(std::move(partial)), url_(std::move(url)) {}
  ~ParquetReferences() override {
    std::error_code ignored;
    if (!is_finished_) std::filesystem::remove_all(partial_, ignored);
  }
  ParquetReferences(const ParquetReferences&) = delete;
  ParquetReferences& operator=(const ParquetReferences&) = delete;

  Result<> begin() {
    CODECFS_ASSIGN(documents_, create_file(documents_path()));
    return put(documents_, documents_path(), "{\"metadata\": {");
  }

  Result<> add_document(const std::string& key, const Json& document) override {
    const std::string_view separator = std::exchange(is_first_, false) ? "\n" : ",\n";
    return put(documents_, documents_path(),
               fmt::format("{}{}: {}", separator, print_json(Json(key)), print_json(document)));
  }

  Result<> begin_chunks(const std::string& path, const ChunkGrid& grid) override {
    CODECFS_TRY(write_record());
    if (path.empty()) return fail(EOPNOTSUPP, "references to a source that is one array are only written as JSON");
    const std::string place = partial_ + "/" + path;
    std::error_code error;
    std::filesystem::create_directories(place, error);
    if (error) return fail_errno(error.value(), "{}", place);
    path_ = place;
    count_ = grid.count();
    return {};
  }

  Result<> add_place(uint64_t number, uint64_t offset, uint64_t size) override {
    CODECFS_TRY(begin_record_of(number));
    const uint64_t row = number % kRecord;
    is_place_[row] = true;
    offsets_[row] = static_cast<int64_t>(offset);
    sizes_[row] = static_cast<int64_t>(size);
    return {};
  }

  Result<> add_content(uint64_t number, Bytes content) override {
    CODECFS_TRY(begin_record_of(number));
    contents_.push_back({static_cast<uint32_t>(number % kRecord),
                         std::string(reinterpret_cast<const char*>(content.data()), content.size())});
    return {};
  }

  Result<> finish() override {
    CODECFS_TRY(write_record());
    // zarr-python 2 reads consolidated metadata only with a number of its format.
    CODECFS_TRY(put(documents_, documents_path(),
                    fmt::format("\n}}, \"zarr_consolidated_format\": 1, \"record_size\": {}}}\n", kRecord)));
    CODECFS_TRY(close_file(std::move(documents_), documents_path()));
    CODECFS_TRY(rename_new(partial_, directory_));
    is_finished_ = true;
    return {};
  }

 private:
  [[nodiscard]] std::string documents_path() const { return partial_ + "/.zmetadata"; }

  Result<> begin_record_of(uint64_t number) {
    const uint64_t record = number / kRecord;
    if (record_ == record) return {};
    CODECFS_TRY(write_record());
    if (interrupted) return fail(ECANCELED, "interrupted");
    const uint64_t rows = std::min(kRecord, count_ - record * kRecord);
    is_place_.assign(rows, false);
    offsets_.assign(rows, 0);
    sizes_.assign(rows, 0);
    record_ = record;
    return {};
  }

  Result<> write_record() {
    if (!record_) return {};
    ParquetWriter table(static_cast<uint32_t>(offsets_.size()));
    CODECFS_TRY(table.add_text("path", url_, is_place_));
    CODECFS_TRY(table.add_numbers("offset", offsets_));
    CODECFS_TRY(table.add_numbers("size", sizes_));
    CODECFS_TRY(table.add_bytes("raw", contents_));
    const std::string path = fmt::format("{}/refs.{}.parq", path_, *record_);
    CODECFS_ASSIGN(OutputFile file, create_file(path));
    CODECFS_TRY(put(file, path, table.finish()));
    CODECFS_TRY(close_file(std::move(file), path));
    contents_.clear();
    record_.reset();
    return {};
  }

  const std::string directory_;
  const std::string partial_;
  const std::string url_;
  OutputFile documents_;
  bool is_first_ = true;
  bool is_finished_ = false;
  std::string path_;    // of the files of a variable
  uint64_t count_ = 0;  // of its chunks, also absent ones
  // The rows of one file.
  std::optional<uint64_t> record_;
  std::vector<bool> is_place_;
  std::vector<int64_t> offsets_;
  std::vector<int64_t> sizes_;
  std::vector<ParquetWriter::Cell> contents_;
};

}  // namespace

Result<std::unique_ptr<ReferenceSink>> make_parquet_references(const std::string& directory, const std::string& url) {
  std::string path = directory;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  struct stat status{};
  if (lstat(path.c_str(), &status) == 0) return fail(EEXIST, "{} exists; remove it or choose another name", path);
  if (errno != ENOENT) return fail_errno(errno, "{}", path);
  const auto [parent, name] = split_path(path);
  std::string partial = parent + "/" + fitted_name("", name, ".codecfs-refs-partial");
  // Of a command that was killed.
  std::error_code error;
  std::filesystem::remove_all(partial, error);
  if (mkdir(partial.c_str(), 0700) != 0) return fail_errno(errno, "{}", partial);
  auto references = std::make_unique<ParquetReferences>(std::move(path), std::move(partial), url);
  CODECFS_TRY(references->begin());
  return references;
}

}  // namespace codecfs::commands
