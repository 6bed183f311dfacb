#include "commands/convert.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "backends/open/source_opener.h"
#include "base/human.h"
#include "base/terminal_text.h"
#include "cli/command.h"
#include "cli/dataset_options.h"
#include "cli/report.h"
#include "commands/workers.h"

namespace codecfs::cli {
namespace {

class ConvertCommand final : public Command {
 public:
  [[nodiscard]] CommandHelp help() const override {
    return {
        "convert", "copy a dataset into a new one of another format, or with other filters",
        "The ending of DEST chooses the format: .h5, .hdf5, .nc, .nc4, .h5ad, .nxs and others of HDF5 make HDF5\n"
        "(netCDF-4 if a variable has named dimensions), .zip a zip archive of Zarr v2, anything else a Zarr "
        "directory\n"
        "in the version of the source, or v2. With --format nczarr it is netCDF's form of Zarr v2, also as .zip. "
        "Stored bytes are passed "
        "through where both formats have the codec; else chunks are decoded\n"
        "and encoded, on all cores. With -F, variables get other filters on their way.\n"
        "\nDEST appears when it is complete and durable. Until then it is DEST.codecfs-partial; after an\n"
        "interruption --resume goes on where it ended. At s3://, gs:// and az:// Zarr is written below DEST itself, "
        "and is a\n"
        "store once it is complete.\n"
        "\nWhat cannot be read, or has no form in DEST, makes the command fail and name it. --skip leaves it out, and\n"
        "--skip-unsupported what is whole but has no form; both list what is left out.\n"
        "\nExamples:\n"
        "  codecfs convert era5.nc era5.zarr\n"
        "  codecfs convert --format zarr3 -F '*,shuffle|zstd,3' era5.nc era5.zarr\n"
        "  codecfs convert store.zarr store.nc && codecfs compare store.zarr store.nc\n"};
  }
  void declare(ArgumentParser& parser) override {
    parser.add_value("SOURCE", source_, {.text = "a dataset", .required = true});
    parser.add_value("DEST", destination_, {.text = "the new one; must not exist", .required = true});
    parser.add_value("--format", format_,
                     {.text = "of DEST: hdf5, zarr (v2), zarr3, zip or nczarr", .value = "FORMAT"});
    parser.add_value("--libver", libver_,
                     {.text = "of a new HDF5 file: v110 (default), which HDF5 1.10 and most programs read; latest: the "
                              "newest of the linked libhdf5",
                      .value = "VERSION"});
    parser.add_flag("--portable", portable_, {.text = "Zarr v3 with only the codecs that every reader has"});
    parser.add_flag("--resume", resume_, {.text = "go on with an interrupted conversion"});
    parser.add_values(
        "--skip", skip_,
        {.text = "leave this variable, group or attribute (OBJECT@NAME) out; may be repeated", .value = "PATH"});
    parser.add_flag("--skip-unsupported", skip_unsupported_,
                    {.text = "leave out what the format of DEST has no form for"});
    options_.declare_with_rules(parser);
  }
  Result<> check() override {
    if (!format_.empty() && !commands::format_named(format_))
      return fail(EINVAL, "--format {}: hdf5, zarr, zarr3, zip or nczarr", format_);
    if (!libver_.empty() && libver_ != "v110" && libver_ != "latest")
      return fail(EINVAL, "--libver {}: v110 or latest", libver_);
    options_.hdf5().latest = libver_ == "latest";
    return options_.prepare();
  }

 private:
  Result<int> work() override {
    CODECFS_ASSIGN(const commands::Converted done, convert());
    for (const std::string& warning : done.warnings)
      std::fprintf(stderr, "codecfs: warning: %s\n", printable(warning).c_str());
    const std::string present = done.present == 0 ? "" : fmt::format("; {} were there", human_count(done.present));
    return print(fmt::format("{}: {}, {}{}\n", shown_source(destination_), counted(done.chunks, "chunk"),
                             human_bytes(done.bytes), present));
  }

  static void tell(const commands::LeftOut& left_out) {
    std::fprintf(stderr, "codecfs: %s%s\n", left_out.is_allowed ? "left out: " : "",
                 printable(left_out.reason).c_str());
  }

  [[nodiscard]] Result<commands::DatasetFormat> format_of(const Source& source) const {
    if (format_.empty()) return commands::format_for(destination_, source);
    return *commands::format_named(format_);
  }

  Result<commands::Converted> convert() {
    commands::catch_signals();
    CODECFS_ASSIGN(std::unique_ptr<Source> source, options_.open(source_));
    CODECFS_ASSIGN(const commands::DatasetFormat format, format_of(*source));
    commands::ConvertOptions options{.format = format,
                                     .rules = options_.rules(),
                                     .rules_text = {},
                                     .skip = skip_,
                                     .skip_unsupported = skip_unsupported_,
                                     .told = tell,
                                     .portable = portable_,
                                     .libver = libver_,
                                     .resume = resume_,
                                     .opener = options_.opener()};
    if (portable_ && options.format != commands::DatasetFormat::zarr3)
      return fail(EINVAL, "--portable: only for --format zarr3");
    if (!libver_.empty() && options.format != commands::DatasetFormat::hdf5)
      return fail(EINVAL, "--libver: only for a new HDF5 file");
    if (options_.rules().keeps_to_stock()) {
      if (options.format != commands::DatasetFormat::hdf5)
        return fail(EINVAL, "--stock-filters: only for an HDF5 file");
      options.rules_text = "stock filters\n";
    }
    for (const std::string& rule : options_.rule_texts()) options.rules_text += rule + "\n";
    return commands::convert(std::move(source), source_, destination_, std::move(options));
  }

  std::string source_;
  std::string destination_;
  std::string format_;
  std::string libver_;
  std::vector<std::string> skip_;
  bool skip_unsupported_ = false;
  bool portable_ = false;
  bool resume_ = false;
  DatasetOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_convert() { return std::make_unique<ConvertCommand>(); }

}  // namespace codecfs::cli
