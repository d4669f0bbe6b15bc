#pragma once

#include "herald/base/clock.h"
#include "replicaset_controller/objects.h"

namespace replicaset_controller {

// Chooses `count` pods to delete if there are too many: those that are needed least. The first
// difference decides which pod is deleted first:
//
//   1. not assigned to a node          before  assigned
//   2. pending, then unknown           before  running
//   3. not ready                       before  ready
//   4. lower controller.kubernetes.io/pod-deletion-cost    before  higher
//   5. more of `related` on its node   before  fewer
//   6. ready for a shorter time        before  longer
//   7. more restarts (of containers, then of sidecars)     before  fewer
//   8. younger                         before  older
//   9. by uid, which is effectively random
//
// Times (6, 8) are compared by the logarithm of the age. So among pods of about the same age it is
// not always the newest that is deleted, which may be the only one in its zone.
//
// Upstream's ActivePodsWithRanks (pkg/controller/controller_utils.go) has the same rules. But if
// the logarithms of two ages are equal, it compares by uid if the times differ, and by rule 7 if
// they do not. This is not a strict order (a before b before c before a), so here rule 7 always
// applies.
//
// `related` are the pods that should be spread over nodes together, including `pods`: for example
// all pods of a Deployment. Pods that have finished or are being deleted are not counted.
//
// A pure function. REQUIRES: 0 <= count <= pods.size()
Pods PodsToDelete(const Pods& pods, const Pods& related, int count, herald::WallTime now);

}  // namespace replicaset_controller
