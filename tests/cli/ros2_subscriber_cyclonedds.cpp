// Subscribes like a ROS 2 node with Cyclone DDS, and prints each message as a JSON line. The first line
// describes the publisher. Usage: ros2_subscriber_cyclonedds DOMAIN TOPIC
#include <dds/dds.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/json.h"
#include "diagnostic_array.h"

namespace headroom::test {
namespace {

Json to_json(const diagnostic_msgs_msg_dds__DiagnosticArray_& array) {
  Json document = {{"sec", array.header_.stamp_.sec_},
                   {"nanosec", array.header_.stamp_.nanosec_},
                   {"frame_id", array.header_.frame_id_},
                   {"status", Json::array()}};
  for (std::uint32_t i = 0; i < array.status_._length; ++i) {
    const auto& status = array.status_._buffer[i];
    Json values = Json::object();
    for (std::uint32_t j = 0; j < status.values_._length; ++j)
      values[status.values_._buffer[j].key_] = status.values_._buffer[j].value_;
    document["status"].push_back({{"level", status.level_},
                                  {"name", status.name_},
                                  {"message", status.message_},
                                  {"hardware_id", status.hardware_id_},
                                  {"values", std::move(values)}});
  }
  return document;
}

void print(const Json& document) {
  std::puts(to_line(document).c_str());
  std::fflush(stdout);
}

// Prints the publisher's type name, user data and QoS. Returns false if there is none yet.
bool print_publisher(dds_entity_t reader) {
  dds_instance_handle_t writers[4];
  if (dds_get_matched_publications(reader, writers, 4) < 1) return false;
  dds_builtintopic_endpoint_t* writer = dds_get_matched_publication_data(reader, writers[0]);
  if (writer == nullptr) return false;
  void* data = nullptr;
  std::size_t size = 0;
  dds_qget_userdata(writer->qos, &data, &size);
  dds_reliability_kind_t reliability{};
  dds_durability_kind_t durability{};
  dds_qget_reliability(writer->qos, &reliability, nullptr);
  dds_qget_durability(writer->qos, &durability);
  print({{"topic", writer->topic_name},
         {"type", writer->type_name},
         {"user_data", std::string(static_cast<const char*>(data), size)},
         {"reliable", reliability == DDS_RELIABILITY_RELIABLE},
         {"volatile", durability == DDS_DURABILITY_VOLATILE}});
  dds_free(data);
  dds_builtintopic_free_endpoint(writer);
  return true;
}

int listen(dds_domainid_t domain, const char* topic_name) {
  // Use only the loopback interface.
  const char* configuration =
      "<CycloneDDS><Domain><General><Interfaces><NetworkInterface address=\"127.0.0.1\"/></Interfaces>"
      "<AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>"
      "<Peers><Peer address=\"127.0.0.1\"/></Peers></Discovery></Domain></CycloneDDS>";
  if (dds_create_domain(domain, configuration) < 0) return 1;
  const dds_entity_t participant = dds_create_participant(domain, nullptr, nullptr);
  const dds_entity_t topic = dds_create_topic(participant, &diagnostic_msgs_msg_dds__DiagnosticArray__desc,
                                              topic_name, nullptr, nullptr);
  dds_qos_t* qos = dds_create_qos();
  dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, DDS_INFINITY);
  dds_qset_history(qos, DDS_HISTORY_KEEP_LAST, 100);
  const dds_entity_t reader = dds_create_reader(participant, topic, qos, nullptr);
  dds_delete_qos(qos);
  if (reader < 0) return 1;
  for (bool is_known = false;;) {
    is_known = is_known || print_publisher(reader);
    void* sample = nullptr;
    dds_sample_info_t info;
    while (is_known && dds_take(reader, &sample, &info, 1, 1) == 1) {
      if (info.valid_data)
        print(to_json(*static_cast<const diagnostic_msgs_msg_dds__DiagnosticArray_*>(sample)));
      dds_return_loan(reader, &sample, 1);
    }
    dds_sleepfor(DDS_MSECS(20));
  }
}

}  // namespace
}  // namespace headroom::test

int main(int count, char** arguments) {
  if (count != 3) return 2;
  return headroom::test::listen(static_cast<dds_domainid_t>(std::atoi(arguments[1])), arguments[2]);
}
