# The log reader.
add_executable(doctor_log_speed ${CMAKE_CURRENT_LIST_DIR}/doctor_log_speed.cpp)
target_link_libraries(doctor_log_speed PRIVATE headroom_flags headroom_doctor)

# A program with planted faults (doctor_planted_faults.py).
add_executable(doctor_fault ${CMAKE_CURRENT_LIST_DIR}/doctor_fault.cpp)
target_link_libraries(doctor_fault PRIVATE headroom_flags headroom_fmt ${CMAKE_DL_LIBS})
target_include_directories(doctor_fault PRIVATE ${CMAKE_SOURCE_DIR}/include)
