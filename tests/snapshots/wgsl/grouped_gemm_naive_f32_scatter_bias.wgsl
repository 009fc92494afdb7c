@group(0) @binding(5) var<storage, read_write> v21: array<f32>;
@group(0) @binding(4) var<storage, read> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 6>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_naive_f32_scatter_bias(@builtin(workgroup_id) v138: vec3<u32>, @builtin(local_invocation_id) v143: vec3<u32>) {
let v146 = &v21;
let v147 = &v17;
let v148 = &v13;
let v149 = &v9;
let v150 = &v5;
let v151 = &v1;
let v3 = u32(0);
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v28 = info_var.scalars_usize[3];
let v29 = info_var.scalars_usize[4];
let v139 = v138[0];
let v31 = u32(v139);
let v32 = u32(2);
let v33 = v32 * v31;
let v34 = u32(1);
let v35 = v33 + v34;
let v39 = &(*v149)[v35];
let v40 = *v39;
let v41 = u32(v40);
let v49 = &(*v149)[v33];
let v50 = *v49;
let v51 = u32(v50);
let v141 = v138[1];
let v142 = u32(64);
let v54 = v141 * v142;
let v144 = v143[0];
let v56 = v54 + v144;
let v57 = u32(v56);
let v58 = v51 >= v28;
let v59 = v51 < v29;
let v60 = v58 && v59;
let v61 = v57 < v25;
let v62 = v60 && v61;
if v62 {
let v66 = &(*v150)[v41];
let v67 = *v66;
let v68 = u32(v67);
let v69 = f32(1.0);
var<function> v135_store: f32;
let v135 = &v135_store;
*v135 = v69;
let v72 = v51 - v28;
let v73 = v72 * v25;
let v79 = v73 + v57;
let v80 = f32(0.0);
var<function> v136_store: f32;
let v136 = &v136_store;
*v136 = v80;
for(var v85: u32 = v3; v85 < v26; v85 += v34) {
let v87 = v41 * v26;
let v88 = v87 + v85;
let v92 = &(*v151)[v88];
let v93 = *v92;
let v94 = v79 * v26;
let v95 = v94 + v85;
let v99 = &(*v148)[v95];
let v100 = *v99;
let v101 = *v136;
let v102 = fma(v93, v100, v101);
*v136 = v102;

}
let v107 = v51 * v25;
let v108 = v107 + v57;
let v112 = &(*v147)[v108];
let v113 = *v112;
let v114 = *v136;
let v115 = v114 + v113;
*v136 = v115;
let v116 = *v136;
let v119 = *v135;
let v120 = v119 * v116;
*v135 = v120;
let v121 = *v135;
let v122 = v68 * v25;
let v123 = v122 + v57;
let v127 = &(*v146)[v123];
*v127 = v121;

}
return;

}
