#include "mount/status.h"

#include <memory>

#include "cli/command.h"
#include "cli/report.h"
#include "model/json.h"

namespace codecfs::cli {
namespace {

class StatusCommand final : public Command {
 public:
  [[nodiscard]] CommandHelp help() const override {
    return {
        "status", "print what the mounts of codecfs are doing",
        "For each mount, or the one at MOUNTPOINT: what waits to be stored, long work with its progress, the use of\n"
        "the cache, and the last warnings and errors of its log.\n"
        "\nExamples:\n"
        "  codecfs status\n"
        "  codecfs status --json ~/mnt | jq '.[0].counters.dirty_bytes'\n"
        "  codecfs status --prometheus > /var/lib/node_exporter/codecfs.prom\n"};
  }
  void declare(ArgumentParser& parser) override {
    parser.add_value("MOUNTPOINT", mountpoint_, {.text = "default: all mounts"});
    parser.add_flag("--json", as_json_, {.text = "print JSON with all counters"});
    parser.add_flag("--prometheus", as_prometheus_, {.text = "print all counters in the text format of Prometheus"});
  }
  Result<> check() override {
    if (as_json_ && as_prometheus_) return fail(EINVAL, "status: --json or --prometheus, not both");
    return {};
  }

 private:
  Result<int> work() override {
    CODECFS_ASSIGN(
        const auto mounts,
        mount::status_of_mounts(mountpoint_.empty() ? std::nullopt : std::optional<std::string>(mountpoint_)));
    if (as_json_) return print(print_json(mount::status_json(mounts), 2) + "\n");
    return print(as_prometheus_ ? mount::status_prometheus(mounts) : mount::status_text(mounts));
  }

  std::string mountpoint_;
  bool as_json_ = false;
  bool as_prometheus_ = false;
};

}  // namespace

std::unique_ptr<Command> make_status() { return std::make_unique<StatusCommand>(); }

}  // namespace codecfs::cli
