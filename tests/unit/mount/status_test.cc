// What running mounts tell, in its forms.

#include "mount/status.h"

#include <gtest/gtest.h>

#include "model/json.h"
#include "support/fake_mounts.h"

namespace codecfs::mount {
namespace {

MountStatus one_mount() {
  MountStatus status;
  status.path = "/mnt/a \"b\"";
  status.source = "/data/a\\b.h5";
  status.counters = {{"bytes_read", 2048}, {"dirty_bytes", 0}};
  status.work = {"re-encoding /v: 37 %"};
  status.errors = {"2026-11-23 18:20:06 error: /v: no room"};
  return status;
}

TEST(Status, TextHasWhatPeopleAskFor) {
  const std::string text = status_text({one_mount()});
  for (const char* part : {"/mnt/a", "2.00 KiB", "0 B to be stored", "37 %", "no room"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  EXPECT_EQ(status_text({}), "no mounts\n");
}

TEST(Status, JsonHasAllCounters) {
  const Json json = status_json({one_mount()});
  EXPECT_EQ(json[0]["counters"]["bytes_read"], 2048);
  EXPECT_EQ(json[0]["work"][0], "re-encoding /v: 37 %");
  EXPECT_FALSE(json[0].contains("unreachable"));
}

TEST(Status, PrometheusEscapesLabels) {
  MountStatus dead;
  dead.path = "/mnt/dead";
  dead.unreachable = "its daemon is dead";
  const std::string text = status_prometheus({one_mount(), dead});
  EXPECT_NE(text.find("codecfs_up{mountpoint=\"/mnt/a \\\"b\\\"\",source=\"/data/a\\\\b.h5\"} 1\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("codecfs_up{mountpoint=\"/mnt/dead\",source=\"\"} 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("codecfs_bytes_read{mountpoint=\"/mnt/a \\\"b\\\"\",source=\"/data/a\\\\b.h5\"} 2048\n"),
            std::string::npos)
      << text;
}

TEST(Status, PrometheusHasAHistogramOfRequests) {
  MountStatus mount = one_mount();
  mount.path = "/mnt";
  mount.source = "s3://b/k";
  mount.counters = {{"object_gets", 5},           {"object_retries", 1},    {"object_time_le_5ms", 2},
                    {"object_time_le_1000ms", 4}, {"object_time_count", 5}, {"object_time_sum_ms", 2500}};
  const std::string text = status_prometheus({one_mount(), mount});
  const std::string labels = R"(mountpoint="/mnt",source="s3://b/k")";
  for (const std::string& line :
       {std::string("# TYPE codecfs_object_time_seconds histogram\n"),
        "codecfs_object_time_seconds_bucket{" + labels + ",le=\"0.005\"} 2\n",
        "codecfs_object_time_seconds_bucket{" + labels + ",le=\"1\"} 4\n",
        "codecfs_object_time_seconds_bucket{" + labels + ",le=\"+Inf\"} 5\n",
        "codecfs_object_time_seconds_sum{" + labels + "} 2.5\n",
        "codecfs_object_time_seconds_count{" + labels + "} 5\n", "codecfs_object_gets{" + labels + "} 5\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << " is not in\n" << text;
  EXPECT_EQ(text.find("object_time_le"), std::string::npos) << text;
  const std::string shown = status_text({mount});
  EXPECT_NE(shown.find("5 requests"), std::string::npos) << shown;
}

TEST(Status, OnlyMountsOfCodecfsAreAsked) {
  FakeMounts mounts;
  const std::string place = testing::TempDir();
  mounts.table.push_back({.id = 40, .device = "0:99", .path = "/other", .type = "fuse.sshfs"});
  EXPECT_TRUE(status_of_mounts(std::nullopt)->empty());
  const auto none = status_of_mounts(place);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, EINVAL);
}

TEST(Status, FiltersAreSetOnlyInMounts) {
  FakeMounts mounts;
  const auto set = set_filters(testing::TempDir(), "zstd,3");
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().code, EINVAL);
  EXPECT_EQ(set_filters("/no/such/path", "zstd,3").error().code, ENOENT);
}

}  // namespace
}  // namespace codecfs::mount
