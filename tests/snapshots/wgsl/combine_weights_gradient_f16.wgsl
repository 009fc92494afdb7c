enable f16;
var<workgroup> shared_v64: array<f32, 128>;
@group(0) @binding(3) var<storage, read_write> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<vec4<f16>>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f16>>;
@group(0) @binding(0) var<storage, read> v1: array<u32>;
struct info_st { scalars_usize: array<u32, 2>, scalars_u32: array<u32, 2>, static_meta: array<u32, 4> }
@group(0) @binding(4) var<storage, read> info_var: info_st;
@compute @workgroup_size(32, 4, 1)
fn combine_weights_gradient_f16(@builtin(local_invocation_id) v196: vec3<u32>, @builtin(workgroup_id) v218: vec3<u32>, @builtin(num_workgroups) v220: vec3<u32>) {
let v226 = &v13;
let v227 = &v9;
let v228 = &v5;
let v229 = &v1;
let v3 = u32(0);
let v174 = info_var.static_meta[3];
let v17 = info_var.scalars_usize[0];
let v18 = info_var.scalars_u32[0];
let v19 = info_var.scalars_usize[1];
let v197 = v196[0];
let v21 = u32(v197);
let v219 = v218[2];
let v199 = u32(v219);
let v221 = v220[1];
let v201 = u32(v221);
let v202 = v199 * v201;
let v222 = v220[0];
let v204 = u32(v222);
let v205 = v202 * v204;
let v223 = v218[1];
let v207 = u32(v223);
let v210 = v207 * v204;
let v211 = v205 + v210;
let v225 = v218[0];
let v213 = u32(v225);
let v214 = v211 + v213;
let v23 = u32(4);
let v24 = v214 * v23;
let v215 = v196[1];
let v26 = u32(v215);
let v27 = v24 + v26;
let v28 = f32(0.0);
let v29 = vec4<f32>(v28);
var<function> v175_store: vec4<f32>;
let v175 = &v175_store;
*v175 = v29;
let v32 = v27 < v174;
if v32 {
let v36 = &(*v229)[v27];
let v37 = *v36;
let v38 = v37 < v18;
if v38 {
let v39 = v27 / v19;
let v40 = v39 * v17;
let v41 = u32(v37);
let v42 = v41 * v17;
let v43 = u32(32);
for(var v44: u32 = v21; v44 < v17; v44 += v43) {
let v46 = v40 + v44;
let v50 = &(*v228)[v46];
let v51 = *v50;
let v52 = vec4<f32>(v51);
let v53 = v42 + v44;
let v57 = &(*v227)[v53];
let v58 = *v57;
let v59 = vec4<f32>(v58);
let v60 = *v175;
let v61 = fma(v52, v59, v60);
*v175 = v61;

}

}

}
let v62 = *v175;
var<function> v195_store: f32;
let v195 = &v195_store;
*v195 = v28;
let v180 = v62[0];
let v181 = *v195;
let v182 = v181 + v180;
*v195 = v182;
let v183 = v62[1];
let v184 = *v195;
let v185 = v184 + v183;
*v195 = v185;
let v186 = v62[2];
let v187 = *v195;
let v188 = v187 + v186;
*v195 = v188;
let v189 = v62[3];
let v190 = *v195;
let v191 = v190 + v189;
*v195 = v191;
let v192 = *v195;
let v193 = &shared_v64;
let v72 = u32(32);
let v73 = v26 * v72;
let v74 = v73 + v21;
let v78 = &(*v193)[v74];
*v78 = v192;
workgroupBarrier();
let v79 = u32(16);
let v80 = v21 < v79;
if v80 {
let v82 = v74 + v79;
let v86 = &(*v193)[v82];
let v87 = *v86;
let v92 = *v78;
let v93 = v92 + v87;
*v78 = v93;

}
workgroupBarrier();
let v94 = u32(8);
let v95 = v21 < v94;
if v95 {
let v97 = v74 + v94;
let v101 = &(*v193)[v97];
let v102 = *v101;
let v107 = *v78;
let v108 = v107 + v102;
*v78 = v108;

}
workgroupBarrier();
let v110 = v21 < v23;
if v110 {
let v112 = v74 + v23;
let v116 = &(*v193)[v112];
let v117 = *v116;
let v122 = *v78;
let v123 = v122 + v117;
*v78 = v123;

}
workgroupBarrier();
let v124 = u32(2);
let v125 = v21 < v124;
if v125 {
let v127 = v74 + v124;
let v131 = &(*v193)[v127];
let v132 = *v131;
let v137 = *v78;
let v138 = v137 + v132;
*v78 = v138;

}
workgroupBarrier();
let v139 = u32(1);
let v140 = v21 < v139;
if v140 {
let v142 = v74 + v139;
let v146 = &(*v193)[v142];
let v147 = *v146;
let v152 = *v78;
let v153 = v152 + v147;
*v78 = v153;

}
let v158 = *v78;
let v160 = v21 == v3;
var<function> v194_store: bool;
let v194 = &v194_store;
if v160 {
*v194 = v32;

} else {
let v164 = false;
*v194 = v164;

}
let v165 = *v194;
if v165 {
let v169 = &(*v226)[v27];
*v169 = v158;

}
return;

}
