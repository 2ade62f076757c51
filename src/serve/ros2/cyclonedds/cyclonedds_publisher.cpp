// The publisher with Cyclone DDS, without ROS. It uses the names, QoS and user data of a ROS 2 publisher, so
// that ROS 2 nodes on any DDS middleware accept it.
#include <dds/dds.h>
#include <dds/version.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "diagnostic_array.h"  // generated from diagnostic_array.idl
#include "serve/ros2/publisher_calls.h"

namespace headroom::ros2 {
namespace {

// The hash of the type's description (REP 2016). Newer ROS distributions use it to distinguish types with the
// same name, and warn if it is missing.
constexpr std::string_view kUserData =
    "typehash=RIHS01_5a8a36efb05fb25070fa0fb3810290c0e6cd4862b54a8fb975a1ee8dc55a333e;";

// A write that takes longer is dropped, so that it does not delay sampling.
constexpr dds_duration_t kLongestWrite = DDS_MSECS(20);

// The configuration that rmw_cyclonedds uses, in addition to CYCLONEDDS_URI. Each process has its own port,
// so that nodes that know only the host can find it. With localhost only, there is no multicast on the
// loopback interface.
std::string configuration_for(const hr_publisher_options& options) {
  std::string xml = "<CycloneDDS><Domain>";
  if (options.localhost_only != 0)
    xml +=
        "<General><Interfaces><NetworkInterface address=\"127.0.0.1\"/></Interfaces>"
        "<AllowMulticast>false</AllowMulticast></General>";
  xml +=
      "<Discovery><ParticipantIndex>auto</ParticipantIndex>"
      "<MaxAutoParticipantIndex>32</MaxAutoParticipantIndex>";
  if (options.localhost_only != 0 || options.static_peer_count > 0) {
    xml += "<Peers>";
    if (options.localhost_only != 0) xml += "<Peer address=\"127.0.0.1\"/>";
    for (std::size_t i = 0; i < options.static_peer_count; ++i)
      xml += fmt::format("<Peer address=\"{}\"/>", options.static_peers[i]);
    xml += "</Peers>";
  }
  xml += "</Discovery></Domain></CycloneDDS>";
  if (const char* own = std::getenv("CYCLONEDDS_URI"); own != nullptr && *own != '\0')
    xml += fmt::format(",{}", own);
  return xml;
}

// Cyclone DDS only reads the text during the write.
char* text_of(const char* text) { return const_cast<char*>(text); }

class CycloneDdsPublisher {
 public:
  static constexpr const char* kStartFix =
      "check the network, ROS_DOMAIN_ID, ROS_STATIC_PEERS and CYCLONEDDS_URI";

  explicit CycloneDdsPublisher(const hr_publisher_options& options)
      : domain_(checked(dds_create_domain(static_cast<dds_domainid_t>(options.domain),
                                          configuration_for(options).c_str()))) {
    try {
      start(options);
    } catch (...) {
      dds_delete(domain_);
      throw;
    }
  }
  ~CycloneDdsPublisher() { dds_delete(domain_); }
  CycloneDdsPublisher(const CycloneDdsPublisher&) = delete;
  CycloneDdsPublisher& operator=(const CycloneDdsPublisher&) = delete;

  void publish(const hr_diagnostic_array& array) {
    std::vector<std::vector<diagnostic_msgs_msg_dds__KeyValue_>> values(array.status_count);
    std::vector<diagnostic_msgs_msg_dds__DiagnosticStatus_> statuses;
    statuses.reserve(array.status_count);
    for (std::size_t i = 0; i < array.status_count; ++i) {
      const hr_diagnostic_status& status = array.status[i];
      values[i].reserve(status.value_count);
      for (std::size_t j = 0; j < status.value_count; ++j)
        values[i].push_back({text_of(status.values[j].key), text_of(status.values[j].value)});
      diagnostic_msgs_msg_dds__DiagnosticStatus_ message{};
      message.level_ = static_cast<std::uint8_t>(status.level);
      message.name_ = text_of(status.name);
      message.message_ = text_of(status.message);
      message.hardware_id_ = text_of(status.hardware_id);
      message.values_._length = message.values_._maximum = static_cast<std::uint32_t>(values[i].size());
      message.values_._buffer = values[i].data();
      statuses.push_back(message);
    }
    diagnostic_msgs_msg_dds__DiagnosticArray_ message{};
    message.header_.stamp_.sec_ = static_cast<std::int32_t>(array.stamp_ns / 1'000'000'000);
    message.header_.stamp_.nanosec_ = static_cast<std::uint32_t>(array.stamp_ns % 1'000'000'000);
    message.header_.frame_id_ = text_of("");
    message.status_._length = message.status_._maximum = static_cast<std::uint32_t>(statuses.size());
    message.status_._buffer = statuses.data();
    const dds_return_t code = dds_write(writer_, &message);
    if (code < 0) throw PublisherFailure{dds_strretcode(-code), "see the messages of Cyclone DDS above"};
  }

 private:
  static dds_entity_t checked(dds_entity_t made) {
    if (made < 0) throw PublisherFailure{dds_strretcode(-made), kStartFix};
    return made;
  }

  void start(const hr_publisher_options& options) {
    const dds_entity_t participant =
        checked(dds_create_participant(static_cast<dds_domainid_t>(options.domain), nullptr, nullptr));
    dds_qos_t* qos = dds_create_qos();
    dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, kLongestWrite);
    dds_qset_durability(qos, DDS_DURABILITY_VOLATILE);
    // Keep one sample: a slow reader gets the newest, and the memory for it stays small.
    dds_qset_history(qos, DDS_HISTORY_KEEP_LAST, 1);
    dds_qset_writer_data_lifecycle(qos, false);
    dds_qset_userdata(qos, kUserData.data(), kUserData.size());
    // The encoding of ROS 2 messages.
    const dds_data_representation_id_t encoding = DDS_DATA_REPRESENTATION_XCDR1;
    dds_qset_data_representation(qos, 1, &encoding);
    const std::string topic_name = std::string("rt") + options.topic;
    const dds_entity_t topic = dds_create_topic(participant, &diagnostic_msgs_msg_dds__DiagnosticArray__desc,
                                                topic_name.c_str(), nullptr, nullptr);
    writer_ = topic < 0 ? topic : dds_create_writer(participant, topic, qos, nullptr);
    dds_delete_qos(qos);
    checked(writer_);
  }

  dds_entity_t domain_ = 0, writer_ = 0;
};

}  // namespace
}  // namespace headroom::ros2

extern "C" __attribute__((visibility("default"))) const hr_publisher_plugin* headroom_publisher(void) {
  static const hr_publisher_plugin kTable =
      headroom::ros2::publisher_table<headroom::ros2::CycloneDdsPublisher>("cyclonedds", DDS_VERSION);
  return &kTable;
}
