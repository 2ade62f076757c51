// The report page: the verdict first, then the comparison of models, then the details.
import {useMemo} from 'preact/hooks';
import type {RunData} from './data';
import {Definitions} from './sections/definitions';
import {GpuMemorySection} from './sections/gpu_memory';
import {Header} from './sections/header';
import {LeftOut} from './sections/left_out';
import {MemoryOverview} from './sections/memory_overview';
import {ModelDetail} from './sections/model_detail';
import {ModelsTable} from './sections/models_table';
import {ParallelSection} from './sections/parallel';
import {PipelineSection} from './sections/pipeline';
import {PoolSection} from './sections/pool';
import {ProbeRoutes} from './sections/probe_routes';
import {RunOptions} from './sections/run_options';
import {SystemMetrics} from './sections/system_metrics';
import {in_reading_order} from './words';

export function Page({run}: {run: RunData}) {
  const {report, images} = run;
  // Anchors use the model's position, because names can contain any character.
  const anchors = useMemo(() => new Map(report.models.map((model, i) => [model, `model-${i + 1}`])), [report]);
  const models = useMemo(() => in_reading_order(report.models), [report]);
  const measured = run.metrics.charts.length + run.metrics.constant.length > 0 || (report.system ?? []).length > 0;
  return (
    <>
      <a class="skip" href="#models">Skip to the figures</a>
      <Header report={report} verdict={run.verdict} limit_words={run.limit_words} />
      <main>
        <ModelsTable models={report.models} limit={report.limit} anchors={anchors} />
        <MemoryOverview models={models} limit={report.limit} runtimes={run.verdict.runtimes ?? []} />
        <GpuMemorySection models={models} joint={report.parallel?.gpu_memory ?? []} limit={report.gpu_limit} words={run.gpu_limit_words} />
        {models.filter((model) => model.status !== 'skipped').map((model, i) => (
          <ModelDetail model={model} source={report.source} limit={report.limit} images={images} anchor={anchors.get(model)!} first={i === 0} />
        ))}
        <LeftOut models={models.filter((model) => model.status === 'skipped')} anchors={anchors} />
        {report.parallel && <ParallelSection parallel={report.parallel} alone={report.models} limit={report.limit} />}
        {report.pipeline && <PipelineSection pipeline={report.pipeline} limit={report.limit} />}
        {report.pool && <PoolSection pool={report.pool} />}
        {measured && <SystemMetrics metrics={run.metrics} every={run.metrics_every} summaries={report.system ?? []} />}
        {report.limit && <ProbeRoutes limit={report.limit} words={run.limit_words} />}
        {report.options && <RunOptions options={report.options} command={report.command} />}
      </main>
      <Definitions />
    </>
  );
}
