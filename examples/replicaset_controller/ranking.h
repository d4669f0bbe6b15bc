#pragma once

#include "herald/base/clock.h"
#include "replicaset_controller/objects.h"

namespace replicaset_controller {

// Which `count` of the pods to delete when there are too many: those whose loss hurts least.
// The first difference decides who goes first:
//
//   1. not assigned to a node          before  assigned
//   2. pending, then unknown           before  running
//   3. not ready                       before  ready
//   4. lower controller.kubernetes.io/pod-deletion-cost    before  higher
//   5. more of `related` on its node   before  fewer
//   6. ready for a shorter time        before  longer
//   7. more restarts (of containers, then of sidecars)     before  fewer
//   8. younger                         before  older
//   9. by uid, which is as good as chance
//
// Times (6, 8) are compared by the logarithm of the age, so that of pods of about the same age
// it is not always the newest that goes: it may be the only one in its zone.
//
// Upstream's ActivePodsWithRanks (pkg/controller/controller_utils.go) has the same rules,
// but where two ages fall together it goes by uid at once if they differ by a second, and by rule 7
// if they do not. That is no order that can be sorted by (a before b before c before a),
// so here rule 7 always has its turn.
//
// `related` are the pods that should be spread over nodes together, these among them: all of
// the same Deployment, say. Pods that are finished or being deleted do not count there.
//
// Pure. REQUIRES: 0 <= count <= pods.size()
Pods PodsToDelete(const Pods& pods, const Pods& related, int count, herald::WallTime now);

}  // namespace replicaset_controller
