#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "backends/open/source_opener.h"
#include "base/file_io.h"
#include "base/file_name.h"
#include "base/human.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/dataset_options.h"
#include "cli/report.h"
#include "commands/copy_access.h"
#include "commands/parquet_references.h"
#include "commands/partial.h"
#include "commands/references.h"
#include "commands/workers.h"

namespace codecfs::cli {
namespace {

class RefsCommand final : public Command {
 public:
  [[nodiscard]] CommandHelp help() const override {
    return {
        "refs", "print kerchunk references to the chunks of an HDF5 file",
        "With these (version 1, JSON, or a directory of Parquet files), readers of Zarr read the file where it is, "
        "also\n"
        "in an object store, without codecfs. Chunks that are not in the file as Zarr has them become part of the\n"
        "references.\n"
        "\nExamples:\n"
        "  codecfs refs era5.nc -o era5.json\n"
        "  codecfs refs era5.nc --url s3://bucket/era5.nc -o era5.json\n"
        "  codecfs refs era5.nc --parquet -o era5.parq\n"
        "  python3 -c 'import xarray; print(xarray.open_dataset(\"reference://\", engine=\"zarr\", backend_kwargs=\n"
        "    {\"consolidated\": False, \"storage_options\": {\"fo\": \"era5.json\"}}))'\n"};
  }
  void declare(ArgumentParser& parser) override {
    parser.add_value("SOURCE", source_, {.text = "an HDF5 or netCDF-4 file, or a zip archive", .required = true});
    parser.add_value("-o,--output", output_,
                     {.text = "write to this file, or with --parquet new directory", .value = "FILE"});
    parser.add_flag("--parquet", is_parquet_, {.text = "a directory of Parquet files, for very many chunks; needs -o"});
    parser.add_value("--url", url_,
                     {.text = "how readers name the source (default: its absolute path)", .value = "URL"});
    options_.declare(parser);
  }
  Result<> check() override {
    if (is_parquet_ && output_.empty()) return fail(EINVAL, "--parquet makes a directory: name it with -o");
    return options_.prepare();
  }

 private:
  Result<int> work() override {
    CODECFS_ASSIGN(const commands::References written, write());
    if (output_.empty()) return 0;
    std::string inlined;
    if (written.inlined > 0)
      inlined = fmt::format(", and {} that are part of it ({})", human_count(written.inlined),
                            human_bytes(written.inlined_bytes));
    return print(fmt::format("{}: {}{}\n", output_, counted(written.chunks, "chunk"), inlined));
  }

  Result<commands::References> write() {
    commands::catch_signals();
    if (!url_.empty() && !is_utf8(url_)) return fail(EILSEQ, "--url is not UTF-8");
    // Readers of the references do not know the log.
    CODECFS_ASSIGN(const SourceCheck state, check_source(source_));
    if (state.has_pending) return fail(EBUSY, "{}: store them first with codecfs recover", state.text);
    CODECFS_ASSIGN(std::unique_ptr<Source> source, options_.open(source_));
    if (url_.empty()) {
      const std::unique_ptr<char, decltype(&std::free)> real(realpath(source_.c_str(), nullptr), &std::free);
      url_ = real ? real.get() : shown_source(source_);
      if (!is_utf8(url_)) return fail(EILSEQ, "{}: references name files in UTF-8; name it with --url", url_);
    }
    if (!is_parquet_) return write_json(std::move(source));
    CODECFS_ASSIGN(const auto sink, commands::make_parquet_references(output_, url_));
    auto written = commands::collect_references(std::move(source), *sink);
    if (written) CODECFS_TRY(commands::open_to_readers(output_, source_));
    return written;
  }

  Result<commands::References> write_json(std::unique_ptr<Source> source) {
    // A file appears when it is complete. It replaces none: that may be the source.
    struct stat status{};
    if (!output_.empty() && lstat(output_.c_str(), &status) == 0)
      return fail(EEXIST, "{}: exists; remove it or choose another name", output_);
    const auto [directory, name] = commands::split_path(output_);
    const std::string partial = directory + "/" + fitted_name("", name, ".codecfs-refs-partial");
    if (!output_.empty()) (void)std::remove(partial.c_str());  // left by a process that was killed
    std::FILE* const file = output_.empty() ? stdout : std::fopen(partial.c_str(), "wxe");
    if (file == nullptr) return fail_errno(errno, "{}", partial);
    if (!output_.empty() && fchmod(fileno(file), S_IRUSR | S_IWUSR) != 0) return fail_errno(errno, "{}", partial);
    const auto sink = commands::make_json_references(url_, [&](std::string_view text) -> Result<> {
      if (std::fwrite(text.data(), 1, text.size(), file) != text.size()) return fail_errno(errno, "cannot write");
      return {};
    });
    auto written = commands::collect_references(std::move(source), *sink);
    if (output_.empty()) {
      if (std::fflush(file) != 0 && written) return fail_errno(errno, "cannot write");
      return written;
    }
    if (std::fclose(file) != 0 && written) written = fail_errno(errno, "{}", partial);
    Result<> done;
    if (written) done = commands::open_to_readers(partial, source_);
    if (written && done) done = rename_new(partial, output_);
    if (!done) written = std::unexpected(done.error());
    if (!written) std::remove(partial.c_str());
    return written;
  }

  std::string source_;
  std::string output_;
  std::string url_;
  bool is_parquet_ = false;
  DatasetOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_refs() { return std::make_unique<RefsCommand>(); }

}  // namespace codecfs::cli
