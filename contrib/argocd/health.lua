-- Health of a SchedulerProfile for Argo CD: resource.customizations.health.scheduling.berth.dev_SchedulerProfile in argocd-cm.
-- Reasons are a closed set: docs/conditions.md.
local found = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    -- What was said of an earlier spec says nothing of this one.
    if condition.observedGeneration == nil or condition.observedGeneration >= (obj.metadata.generation or 0) then
      found[condition.type] = condition
    end
  end
end

local ready, stalled, reconciling = found["Ready"], found["Stalled"], found["Reconciling"]
if ready == nil then
  return {status = "Progressing", message = "no operator has read this spec yet"}
end
if stalled ~= nil and stalled.status == "True" then
  return {status = "Degraded", message = stalled.message}
end
-- Ready speaks of the spec before while a new one is taken up.
if reconciling ~= nil and reconciling.status == "True" then
  return {status = "Progressing", message = ready.message}
end
-- True is also what is paused or in a dry run, as its spec asks, and the message says so: Suspended would hold up sync waves.
if ready.status == "True" then
  return {status = "Healthy", message = ready.message}
end
if ready.status == "Unknown" or ready.reason == "AwaitingLeader" or ready.reason == "Deleting" then
  return {status = "Progressing", message = ready.message}
end
return {status = "Degraded", message = ready.message}
