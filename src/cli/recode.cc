#include "commands/recode.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "backends/open/source_opener.h"
#include "base/human.h"
#include "base/log.h"
#include "base/terminal_text.h"
#include "cli/command.h"
#include "cli/dataset_options.h"
#include "cli/report.h"
#include "commands/estimate.h"
#include "commands/walk.h"
#include "commands/workers.h"

namespace codecfs::cli {
namespace {

/// What becomes of chunks that were stored without some of the filters, where the filters stay.
std::string masked_text(const commands::Recoded& variable, bool is_dry_run) {
  if (variable.masked_before == 0) return "";
  if (is_dry_run)
    return fmt::format(", and would encode {} again that lack some of them", counted(variable.masked_before, "chunk"));
  return fmt::format(", encoded {} again that lacked some of them, of which {} still do",
                     counted(variable.masked_before, "chunk"), variable.masked_after);
}

class RecodeCommand final : public Command {
 public:
  [[nodiscard]] CommandHelp help() const override {
    return {
        "recode", "change the filters of variables in place",
        "Each variable is re-encoded completely or not at all, on all cores; readers and a crash never see half of\n"
        "it. After an interruption (Ctrl-C), variables that were reported are changed, the others are not: the same\n"
        "command goes on with them. An HDF5 file keeps the space of the former chunks until `codecfs compact`.\n"
        "\n--estimate changes nothing: it encodes and decodes a sample of the chunks of each variable (of those that\n"
        "the rules name, or of all) with usual filters and those of the rules, and prints what they gain. The speeds\n"
        "are those of one core. Of the filters that decode at least half as fast as those in use (if there are none, "
        "as\n"
        "deflate), it recommends the fastest of those within 5 % of the smallest result.\n"
        "\nExamples:\n"
        "  codecfs recode --estimate era5.nc\n"
        "  codecfs recode -F '*,shuffle|zstd,3' --dry-run era5.nc\n"
        "  codecfs recode -F '*,shuffle|zstd,3' era5.nc && codecfs compact era5.nc\n"};
  }
  void declare(ArgumentParser& parser) override {
    parser.add_value("SOURCE", source_, {.text = "a dataset", .required = true});
    parser.add_flag("--dry-run", dry_run_, {.text = "only print what would change"});
    parser.add_flag("--estimate", estimate_, {.text = "only measure what filters would gain"});
    options_.declare_with_rules(parser);
  }
  Result<> check() override {
    if (options_.rule_texts().empty() && !estimate_ && !options_.keeps_to_stock())
      return fail(EINVAL, "recode: needs the filters: -F VARS,SPEC or --stock-filters (see codecfs recode --help)");
    return options_.prepare();
  }

 private:
  Result<int> work() override { return estimate_ ? print_estimates() : recode(); }

  Result<int> recode() {
    commands::catch_signals();
    CODECFS_ASSIGN(std::unique_ptr<Source> source, options_.open(source_, !dry_run_));
    bool is_refused = false;
    const auto told = [&](const commands::Recoded& variable) {
      is_refused |= variable.refused.has_value();
      std::string what = fmt::format("{} -> {}", variable.before, variable.after);
      if (variable.refused)
        what = fmt::format("left as it is: {}", variable.refused->reason);
      else if (!variable.changes)
        what = fmt::format("has {} already{}", variable.before, masked_text(variable, dry_run_));
      std::string sizes = fmt::format("{}, {}", counted(variable.chunks, "chunk"), human_bytes(variable.bytes_before));
      if (variable.changes && variable.bytes_after > 0)
        sizes += fmt::format(" -> {}", human_bytes(variable.bytes_after));
      print(printable(fmt::format("{}: {} ({})", variable.path, what, sizes)) + "\n");
    };
    CODECFS_ASSIGN(const commands::RecodeResult done,
                   commands::recode(std::move(source), options_.rules(), dry_run_, told));
    if (done.variables.empty() && options_.rule_texts().empty())
      return print(fmt::format("{}: no variable needs a plugin of HDF5\n", source_));
    if (done.variables.empty()) return fail(EINVAL, "no rule names a variable with chunks in this source");
    if (done.reclaimable_bytes > 0)
      print(fmt::format("codecfs compact {} would free {}\n", source_, human_bytes(done.reclaimable_bytes)));
    const auto needing = std::ranges::find_if(done.variables, [](const auto& one) { return !one.plugins.empty(); });
    if (needing != done.variables.end()) print_plugins(source_, needing->plugins);
    if (!is_refused) return 0;
    const auto is_kept = [](const commands::Recoded& variable) { return variable.refused.has_value(); };
    if (!std::ranges::all_of(done.variables, is_kept)) return kIncomplete;
    return fail(done.variables.front().refused->code, "{}: no variable was changed", shown_source(source_));
  }

  Result<int> print_estimates() {
    commands::catch_signals();
    CODECFS_ASSIGN(const std::unique_ptr<Source> source, options_.open(source_));
    std::vector<std::string> specs = commands::usual_specs();
    for (const std::string& rule : options_.rule_texts())
      if (const size_t comma = rule.find(','); comma != rule.npos) specs.push_back(rule.substr(comma + 1));
    for (const std::string& name : options_.rules().names())
      if (const Result<Entry> found = commands::find_named(*source, name); !found)
        log::warning("filter rule for {}: {}", name, found.error().reason);
    bool is_any = false;
    CODECFS_TRY(commands::walk(
        *source,
        [&](const std::string& path, const Entry& entry) -> Result<> {
          if (entry.kind != EntryKind::variable) return {};
          if (!options_.rules().empty() && !options_.rules().resolve("/" + path)) return {};
          CODECFS_ASSIGN(const VariablePtr facts, source->facts(entry.object));
          if (facts->grid.rank() == 0) return {};
          is_any = true;
          const auto measured = commands::estimate({*source, entry.object, facts}, "/" + path, specs);
          if (!measured && measured.error().code == ECANCELED) return std::unexpected(measured.error());
          const std::string text = measured ? commands::estimate_text(*measured)
                                            : printable(fmt::format("/{}: {}", path, measured.error().reason)) + "\n";
          print(text);
          return {};
        },
        [](const std::string&, const Error& error) -> Result<> { return std::unexpected(error); }));
    if (!is_any && !options_.rule_texts().empty())
      return fail(EINVAL, "no rule names a variable with chunks in this source");
    return 0;
  }

  std::string source_;
  bool dry_run_ = false;
  bool estimate_ = false;
  DatasetOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_recode() { return std::make_unique<RecodeCommand>(); }

}  // namespace codecfs::cli
