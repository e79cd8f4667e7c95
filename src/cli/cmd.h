// cli/cmd.h: all commands there are, in the order of the help. The row of a command is in the
// cmd_*.c file of its noun. Private to the layer.
#pragma once

#include "cli/command.h"

// clang-format off
#define COMMANDS(C)                                                                                 \
    C(up) C(down) C(master_info) C(master) C(shim)                                                                 \
    C(experiment_create) C(experiment_list) C(experiment_describe) C(experiment_config)             \
    C(experiment_logs) C(experiment_wait) C(experiment_pause) C(experiment_activate)                \
    C(experiment_cancel) C(experiment_kill) C(experiment_continue) C(experiment_fork)               \
    C(experiment_archive) C(experiment_unarchive) C(experiment_delete)                              \
    C(experiment_label_add) C(experiment_label_remove) C(experiment_set_name)                       \
    C(experiment_set_description) C(experiment_set_priority) C(experiment_set_weight)              \
    C(experiment_set_max_slots) C(experiment_list_trials)                                           \
    C(experiment_list_checkpoints) C(experiment_model_def)                                          \
    C(trial_describe) C(trial_logs) C(trial_metrics) C(trial_download) C(trial_kill)                \
    C(checkpoint_list) C(checkpoint_describe) C(checkpoint_download) C(checkpoint_delete)           \
    C(job_run) C(job_list) C(job_logs) C(job_update) C(job_kill)                                    \
    C(slot_list) C(slot_enable) C(slot_disable)                                                     \
    C(user_login) C(user_logout) C(user_whoami) C(user_list) C(user_create)                         \
    C(user_change_password) C(user_activate) C(user_deactivate) C(user_link_with_agent_user)         \
    C(template_list) C(template_describe) C(template_set) C(template_remove)                        \
    C(why) C(config_check) C(config_reference) C(preview_search) C(simulate_search) C(completion) C(help) C(version)
// clang-format on

#define DECLARE_COMMAND(name) extern const struct command cmd_##name;
COMMANDS(DECLARE_COMMAND)
